// Files from the user's disk to the server: chosen, or dropped anywhere on the page.
import { h } from "../dom";
import { Refusal, upload } from "./api";
import type { Store } from "./store";
import { size } from "./words";

const ENDINGS = ".csv,.tsv,.txt,.gz,.parquet,.pq,.feather,.arrow,.ipc,.jsonl,.ndjson,.npz";

export function installUpload(root: HTMLElement, store: Store): void {
  const button = h("button", { type: "button", class: "main" }, "Open a data file");
  const input = h("input", { type: "file", id: "file", multiple: "", accept: ENDINGS, hidden: "" });
  input.setAttribute("aria-label", "Data files");
  const hint = h("p", { class: "hint" }, "or drop it here: CSV, Parquet, Arrow, JSON lines or NPZ");
  const zone = h("div", { class: "drop" }, button, input, hint);
  const queue = h("div", { class: "uploads" });
  root.append(zone, queue);

  let line: Promise<void> = Promise.resolve();
  const take = (files: Iterable<File>): void => {
    // One after the other: several large files at once would only slow each other down.
    for (const file of files) line = line.then(() => send(file, queue, store));
  };
  button.onclick = () => input.click();
  input.onchange = () => {
    take([...(input.files ?? [])]);
    input.value = ""; // so that the same file can be chosen again
  };
  installDrop(zone, take);
}

function installDrop(zone: HTMLElement, take: (files: Iterable<File>) => void): void {
  const holdsFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes("Files") ?? false;
  addEventListener("dragover", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault(); // else the browser would leave the page and open the file
    zone.classList.add("over");
  });
  addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) zone.classList.remove("over");
  });
  addEventListener("drop", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    zone.classList.remove("over");
    take([...(event.dataTransfer?.files ?? [])]);
  });
}

async function send(file: File, queue: HTMLElement, store: Store): Promise<void> {
  if (file.size > store.uploadLimit) {
    const limit = size(store.uploadLimit);
    store.complain(
      `${file.name} is too large: it has ${size(file.size)}, and this studio takes ${limit} at most. ` +
        "Start it with a larger --max-upload, or with the file itself: simile studio FILE.",
    );
    return;
  }
  const bar = h("progress", { max: "1", "aria-label": `Sending ${file.name}` });
  const entry = h("p", { class: "upload" }, h("span", {}, `Sending ${file.name}`), bar);
  queue.append(entry);
  try {
    const data = await upload(file, (share) => {
      bar.value = share;
      if (share >= 1) bar.removeAttribute("value"); // all sent; now the server reads it
    });
    store.takeData(data);
    store.select({ data: data.id });
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    store.complain(error);
  } finally {
    entry.remove();
  }
}
