// What happened to a stream, the newest first; the same again and again is one line.
import { h } from "../dom";
import type { Event } from "./seat";

const MOST = 200;
export const HANDED_BACK = "the operator has handed back";

/** An event in words. */
export function describe({ kind, on, reason, ...details }: Event): string {
  const more = Object.entries(details).map(([name, value]) => `${name.replaceAll("_", " ")} ${String(value)}`);
  const what =
    kind === "operated" ? (on ? "taken over" : "handed back") : on ? kind.replaceAll("_", " ") : `${kind}: over`;
  return [what, reason !== HANDED_BACK && reason, ...more].filter(Boolean).join(" · ").replaceAll("_", " ");
}

export interface Line {
  text: string;
  kind: string;
  on: boolean;
  time: Date; // of the last time
  times: number;
}

/** Add an event to lines, the newest first. */
export function fold(lines: Line[], event: Event, time: Date): void {
  const text = describe(event);
  const before = lines[0];
  if (before?.text === text) Object.assign(before, { time, times: before.times + 1 });
  else lines.unshift({ text, kind: event.kind, on: event.on, time, times: 1 });
  lines.length = Math.min(lines.length, MOST);
}

export class Events {
  private lines: Line[] = [];
  private readonly list = h("ul", { class: "events" });
  private readonly quiet = h("p", { class: "empty" }, "Nothing yet.");

  constructor(root: HTMLElement) {
    root.append(this.quiet, this.list);
  }

  add(event: Event): void {
    const before = this.lines[0];
    fold(this.lines, event, new Date());
    if (this.lines[0] === before) this.list.firstElementChild!.remove();
    this.list.prepend(row(this.lines[0]!));
    while (this.list.childElementCount > this.lines.length) this.list.lastElementChild!.remove();
    this.quiet.hidden = true;
  }

  /** Another stream: its events are others. */
  clear(): void {
    this.lines = [];
    this.list.replaceChildren();
    this.quiet.hidden = false;
  }
}

function row({ text, kind, on, time, times }: Line): HTMLElement {
  const words = times > 1 ? `${text} · ${times} times` : text;
  return h(
    "li",
    { class: on ? "on" : "off", "data-kind": kind },
    h("time", {}, time.toLocaleTimeString("en-GB")),
    words,
  );
}
