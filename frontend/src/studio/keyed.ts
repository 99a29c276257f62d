// Lists whose entries stay the same elements while their data change: focus and open forms survive.

export interface Entry<T> {
  root: HTMLElement;
  update(item: T): void;
}

export class Keyed<T extends { id: string }> {
  private readonly entries = new Map<string, Entry<T>>();

  constructor(
    private readonly parent: HTMLElement,
    private readonly make: (item: T) => Entry<T>,
  ) {}

  update(items: T[]): void {
    const ids = new Set(items.map((item) => item.id));
    for (const [id, entry] of this.entries) {
      if (!ids.has(id)) {
        entry.root.remove();
        this.entries.delete(id);
      }
    }
    items.forEach((item, i) => {
      let entry = this.entries.get(item.id);
      if (entry === undefined) {
        entry = this.make(item);
        this.entries.set(item.id, entry);
      }
      entry.update(item);
      // An element that is moved loses the focus, so only those that must.
      if (this.parent.children[i] !== entry.root) this.parent.insertBefore(entry.root, this.parent.children[i] ?? null);
    });
  }
}

export function setText(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** Options of a select, changed only where they differ: an open list would close. */
export function setOptions(select: HTMLSelectElement, options: [value: string, text: string][], value: string): void {
  const same =
    select.options.length === options.length &&
    options.every(([v, t], i) => select.options[i]!.value === v && select.options[i]!.text === t);
  if (!same) select.replaceChildren(...options.map(([v, t]) => new Option(t, v)));
  if (select.value !== value) select.value = value;
}
