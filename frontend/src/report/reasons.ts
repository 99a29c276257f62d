// "What does it look at?", "Can I trust it?" and "Do it again".

import { shareBars } from "../charts";
import { format, h } from "../dom";
import type { Report } from "../payload";
import { type Section, section } from "./section";

const MOST = 20;

export function attentionSection({ importances }: Report): Section | null {
  if (!importances || importances.contexts.length === 0) return null;
  const [contexts, lags] = [h("div"), h("div")];
  shareBars(contexts, importances.contexts, MOST);
  shareBars(lags, importances.lags, MOST, true);
  const panel = (title: string, root: HTMLElement) => h("div", {}, h("h3", {}, title), root);
  const byLag = importances.lags.length ? panel("By how long ago", lags) : null;
  const words = importances.note || "What the policy decides by: the share of each input.";
  const both = h("div", { class: "pair" }, panel("By input", contexts), byLag);
  return section("attention", "Inputs", "What does it look at?", words, both);
}

export function trustSection({ diagnosis }: Report): Section | null {
  if (!diagnosis) return null;
  const findings = diagnosis.findings.map((finding) => h("li", {}, finding));
  const rows = diagnosis.values.map(({ name, value, meaning }) =>
    h("tr", {}, h("td", {}, name), h("td", { class: "number" }, format(value)), h("td", {}, meaning)),
  );
  const head = ["Value", "", "Meaning"].map((name, i) =>
    h(
      "th",
      { scope: "col", class: i === 1 ? "number" : "" },
      i === 1 ? h("span", { class: "hidden" }, "Number") : name,
    ),
  );
  const table = h("table", {}, h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows));
  const scroll = h("div", { class: "scroll", role: "region", "aria-label": "Values behind it", tabindex: 0 }, table);
  const details = rows.length ? h("details", {}, h("summary", {}, "The numbers behind it"), scroll) : null;
  const words = "What a look at the policy's own errors, on data it has not seen, says about it.";
  return section("trust", "Trust", "Can I trust it?", words, h("ul", { class: "findings" }, ...findings), details);
}

export function againSection({ repeat }: Report): Section | null {
  if (!repeat) return null;
  const blocks = [
    ["In a terminal", repeat.command],
    ["In Python", repeat.python],
    ["As a configuration", repeat.config],
  ].filter((block): block is [string, string] => Boolean(block[1]));
  if (blocks.length === 0) return null;
  const words = "Everything that is needed to make this policy again, from the same data.";
  return section(
    "again",
    "Again",
    "How do I do it again?",
    words,
    ...blocks.map(([title, text]) => copyable(title, text)),
  );
}

function copyable(title: string, text: string): HTMLElement {
  const pre = h("pre", { tabindex: 0 }, h("code", {}, text));
  const button = h("button", { type: "button", class: "controls", "aria-label": `Copy: ${title}` }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      // A page that is a file may have no clipboard: the text is selected, for a key to copy it.
      getSelection()?.selectAllChildren(pre);
      button.textContent = "Selected";
    }
    setTimeout(() => {
      button.textContent = "Copy";
    }, 2000);
  });
  return h("div", { class: "copyable" }, h("div", { class: "row" }, h("h3", {}, title), button), pre);
}
