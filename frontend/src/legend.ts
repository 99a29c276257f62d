// A legend whose entries are buttons: they say what a curve is, hide or show it, and hold its value at the pointer.

import { h } from "./dom";
import { colour, onTheme } from "./theme";

export interface Entry {
  name: string;
  colour: number;
  dash?: boolean;
}

export interface Legend {
  root: HTMLElement;
  say(i: number, text: string): void;
  destroy(): void;
}

/** Make a legend; `toggle` is told which entry was switched on or off. Those named in `hidden` are off already. */
export function legend(
  entries: Entry[],
  toggle: (i: number, shown: boolean) => void,
  hidden = new Set<string>(),
): Legend {
  const values: HTMLElement[] = [];
  const buttons = entries.map((entry, i) => {
    const swatch = h("span", { class: entry.dash ? "swatch dashed" : "swatch", "aria-hidden": "true" });
    const paint = () => swatch.style.setProperty("border-top-color", colour(entry.colour));
    paint();
    const value = h("span", { class: "value" });
    values.push(value);
    const button = h(
      "button",
      { type: "button", class: "entry", "aria-pressed": String(!hidden.has(entry.name)) },
      swatch,
      entry.name,
      value,
    );
    button.addEventListener("click", () => {
      const shown = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(shown));
      toggle(i, shown);
    });
    return { button, stop: onTheme(paint) };
  });
  const root = h("div", { class: "legend", role: "group", "aria-label": "Curves: press to hide or show" });
  root.append(...buttons.map(({ button }) => button));
  return {
    root,
    say: (i, text) => {
      if (values[i]) values[i].textContent = text;
    },
    destroy: () => {
      for (const { stop } of buttons) stop();
      root.remove();
    },
  };
}
