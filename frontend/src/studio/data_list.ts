// What there is to learn from, and what was understood of it.
import { h } from "../dom";
import { deleteData } from "./api";
import { ChooseForm } from "./choose_form";
import { sureAction } from "./forms";
import { type Entry, Keyed, setText } from "./keyed";
import type { Store } from "./store";
import type { Data } from "./types";
import { dataFacts } from "./words";

const MOST_CHIPS = 4;
const EMPTY = "Nothing here yet. Open a file with one row for every frame, or simulate games to try things out.";

export function installDataList(root: HTMLElement, store: Store): void {
  const empty = h("p", { class: "empty" }, EMPTY);
  const list = h("ul", { class: "entries", "aria-label": "Data" });
  root.append(empty, list);
  const keyed = new Keyed<Data>(list, (data) => dataEntry(data, store));
  store.listen(() => {
    empty.hidden = !store.known || store.data.length > 0;
    keyed.update(store.data);
  });
}

function dataEntry(first: Data, store: Store): Entry<Data> {
  const name = h("button", { type: "button", class: "name", title: "Learn from this next" }, first.name);
  name.onclick = () => store.select({ data: first.id });
  const facts = h("p", { class: "facts" });
  const chips = h("p", { class: "chips" });
  const trouble = h("p", { class: "trouble" });
  const summary = h("pre", { class: "summary", tabindex: "0" });
  const details = h("details", {}, h("summary", {}, "What was understood"), summary);
  const form = new ChooseForm(store);
  const change = h(
    "button",
    { type: "button", class: "quiet", "aria-label": `Change how ${first.name} is read` },
    "Change",
  );
  change.setAttribute("aria-expanded", "false");
  const remove = sureAction("Delete", () => store.attempt(deleteData(first.id)), `Delete ${first.name}`);
  const buttons = h("div", { class: "buttons" }, change, remove);
  const root = h(
    "li",
    { class: "entry" },
    h("div", { class: "head" }, h("h3", {}, name), buttons),
    facts,
    chips,
    trouble,
    details,
    form.root,
  );

  let latest: Data | null = null;
  let open = false;
  const showForm = (): void => {
    form.root.hidden = !open;
    change.setAttribute("aria-expanded", String(open));
    if (open && latest !== null) form.fill(latest);
  };
  change.onclick = () => {
    open = !open;
    showForm();
  };
  form.onread = () => {
    open = false;
    showForm();
  };

  return {
    root,
    update(data) {
      const chosen = store.chosenData?.id === data.id;
      root.classList.toggle("selected", chosen);
      name.disabled = data.status !== "ready";
      if (chosen) name.setAttribute("aria-current", "true");
      else name.removeAttribute("aria-current");
      chips.hidden = !chosen;
      if (data === latest) return;
      latest = data;
      root.dataset.status = data.status;
      setText(facts, dataFacts(data));
      trouble.hidden = data.error === null && data.status === "ready";
      // Nobody has chosen yet: that is no error.
      const unasked = data.status === "choose" && Object.keys(data.options).length === 0;
      trouble.classList.toggle("trouble", !unasked);
      setText(trouble, unasked ? "Which columns are the actions? Tick them." : (data.error ?? ""));
      chips.replaceChildren(...chipsOf(data));
      details.hidden = data.understood === null;
      setText(summary, data.understood?.summary ?? "");
      change.hidden = data.kind === "games" || data.status !== "ready";
      if (data.status === "choose") open = true;
      if (data.columns.length === 0) open = false;
      showForm();
    },
  };
}

function chipsOf(data: Data): HTMLElement[] {
  if (data.understood === null) return [];
  const { actions, contexts } = data.understood;
  const some = contexts.slice(0, MOST_CHIPS);
  const chips = [
    ...actions.map((name) => h("span", { class: "chip action", title: "action" }, name)),
    ...some.map((name) => h("span", { class: "chip", title: "context" }, name)),
  ];
  const more = contexts.length - some.length;
  if (more > 0) chips.push(h("span", { class: "chip more" }, `and ${more} more`));
  return chips;
}
