// What can be taken away from a run: its policy, report, and how to do it again.
import { h } from "../dom";
import { type Download, downloadPath, reportPath } from "./api";
import { setText } from "./keyed";
import type { Run } from "./types";

const THINGS: [what: Download, text: string, needs: "policy" | "report" | null][] = [
  ["policy", "Policy", "policy"],
  ["report", "Report", "report"],
  ["python", "Python script", null],
  ["command", "Command", null],
  ["config", "Options (TOML)", null],
];
const SAID = 1500; // ms

export class DownloadsView {
  readonly root: HTMLElement;
  private readonly links = THINGS.map(([, text]) => h("a", { class: "button", download: "" }, text));
  private readonly open = h("a", { class: "button", target: "_blank", rel: "noopener" }, "Open the report ↗");
  private readonly command = h("pre", { tabindex: 0 });
  private readonly python = h("pre", { tabindex: 0 });

  constructor() {
    this.root = h(
      "section",
      { class: "card", id: "downloads", "aria-labelledby": "downloads-title" },
      h("h2", { id: "downloads-title" }, "Take it with you"),
      h("div", { class: "row" }, this.open, ...this.links),
      h("h3", {}, "Do it again"),
      copied(this.command, "Copy the command"),
      h("details", {}, h("summary", {}, "The same in Python"), copied(this.python, "Copy the script")),
    );
  }

  update(run: Run): void {
    THINGS.forEach(([what, , needs], i) => {
      const link = this.links[i]!;
      link.href = downloadPath(run.id, what);
      link.hidden = needs !== null && !run.has[needs];
    });
    this.open.href = reportPath(run.id);
    this.open.hidden = !run.has.report;
    setText(this.command, run.command);
    setText(this.python, run.python);
  }
}

function copied(text: HTMLElement, label: string): HTMLElement {
  const button = h("button", { type: "button", class: "quiet", "aria-label": label }, "Copy");
  button.onclick = async () => {
    let done = true;
    try {
      await navigator.clipboard.writeText(text.textContent ?? "");
    } catch {
      // Not every browser allows it: then the text is selected, for ctrl+C.
      getSelection()?.selectAllChildren(text);
      done = false;
    }
    button.textContent = done ? "Copied" : "Selected";
    window.setTimeout(() => setText(button, "Copy"), SAID);
  };
  return h("div", { class: "copied" }, text, button);
}
