// A card with a question for a heading, and an entry in the navigation.

import { type Child, h } from "../dom";

export interface Section {
  id: string;
  short: string; // in the navigation
  question: string;
  root: HTMLElement;
  /** Draws the charts, once the words are on the screen. */
  draw: () => void;
}

export function section(id: string, short: string, question: string, caption: string, ...children: Child[]): Section {
  const heading = h("h2", { id: `${id}-heading` }, question);
  const root = h("section", { id, class: "card", "aria-labelledby": `${id}-heading` }, heading);
  root.append(h("p", { class: "caption" }, caption));
  root.append(...children.filter((child) => child instanceof Node));
  return { id, short, question, root, draw: () => {} };
}

/** A select with a label. */
export function choice(
  label: string,
  names: string[],
  chosen: number,
  onchange: (i: number) => void,
): HTMLLabelElement {
  const select = h("select");
  for (const [i, name] of names.entries()) select.append(h("option", { value: i }, name));
  select.value = String(chosen);
  select.addEventListener("change", () => onchange(Number(select.value)));
  return h("label", {}, label, select);
}

/** The action that all sections show, which any of them may change. */
export class ChosenAction {
  private readonly listeners: ((action: number) => void)[] = [];
  private now = 0;

  constructor(private readonly names: string[]) {}

  get value(): number {
    return this.now;
  }

  set value(action: number) {
    this.now = Math.min(Math.max(0, action), this.names.length - 1);
    for (const listener of this.listeners) listener(this.now);
  }

  onchange(listener: (action: number) => void): void {
    this.listeners.push(listener);
  }

  /** A select of actions that follows the others; nothing where there is only one. */
  control(): HTMLElement | null {
    if (this.names.length < 2) return null;
    const label = choice("Action", this.names, this.now, (i) => {
      this.value = i;
    });
    this.onchange((action) => {
      label.querySelector("select")!.value = String(action);
    });
    return label;
  }
}
