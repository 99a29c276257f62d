// What went wrong, at the top of the page, until somebody has read it.
import { h } from "../dom";
import type { Store } from "./store";

const CONNECTION = {
  off: "The server is not answering; trying again. Nothing is lost: runs go on, or are taken up when it is back.",
  locked: "The server was started anew and does not know this window: open the address that it printed.",
};

export function installBanners(root: HTMLElement, store: Store): void {
  // Live regions must be there before their text: else it is not read out.
  const connection = h("div", { role: "status", class: "banners" });
  const complaints = h("div", { role: "alert", class: "banners" });
  root.append(connection, complaints);
  let said = "";
  let complained: string[] = [];
  store.listen(() => {
    const text = store.connection === "on" ? "" : CONNECTION[store.connection];
    if (text !== said) {
      said = text;
      connection.replaceChildren(...(text ? [h("p", { class: "banner waiting", id: "offline" }, text)] : []));
    }
    if (store.complaints === complained) return;
    complained = store.complaints;
    complaints.replaceChildren(...complained.map((complaint) => complaintBanner(complaint, store)));
  });
}

function complaintBanner(text: string, store: Store): HTMLElement {
  const close = h("button", { type: "button", class: "close", "aria-label": "Dismiss this message" }, "✕");
  close.onclick = () => store.dismiss(text);
  return h("div", { class: "banner error" }, h("p", {}, text), close);
}
