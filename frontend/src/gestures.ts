// Keys, wheel and dragging, as moves of a view.

import { h } from "./dom";
import type { View } from "./view";

const KEYS =
  "Left and right arrow: pan. Plus and minus: zoom. Home: all of it. End: to the end. " +
  "Drag: zoom to a stretch. Shift and drag, or drag the strip below: pan. Wheel: zoom. Double click: all of it.";

const NEARER = 0.7;

let described = 0;

/** Make an element a group that takes the focus, has a name, and says which keys move it. */
export function describe(root: HTMLElement, label: string): void {
  const id = `keys-${described++}`;
  root.tabIndex = 0;
  root.setAttribute("role", "group");
  root.setAttribute("aria-label", label);
  root.setAttribute("aria-describedby", id);
  root.append(h("p", { id, class: "hidden" }, KEYS));
}

/** Move by a key; whether it was one of ours. */
export function byKey(view: View, event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  const moves: Record<string, () => void> = {
    ArrowLeft: () => view.pan(-view.width / 8),
    ArrowRight: () => view.pan(view.width / 8),
    "+": () => view.zoom(NEARER),
    "=": () => view.zoom(NEARER),
    "-": () => view.zoom(1 / NEARER),
    Home: () => view.go(0, view.frames),
    End: () => view.slide(view.frames - view.width, view.frames),
  };
  const move = moves[event.key];
  move?.();
  return move !== undefined;
}

/** Move by the wheel, over something so many pixels wide; false where the page should scroll instead. */
export function byWheel(view: View, event: WheelEvent, pixels: number, about: number): boolean {
  const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
  // Nothing to zoom out of, or to pan in.
  if (view.all && (sideways || event.deltaY > 0)) return false;
  if (sideways) view.pan((event.deltaX / pixels) * view.width);
  else view.zoom(1.0015 ** Math.max(-300, Math.min(300, event.deltaY)), about);
  return true;
}

/** Pan while the button of the mouse is down. */
export function byDragging(view: View, event: MouseEvent, over: HTMLElement, moved: () => void): void {
  const [from, begin, end] = [event.clientX, view.begin, view.end];
  const unit = view.width / over.clientWidth;
  const move = (now: MouseEvent) => {
    const by = (from - now.clientX) * unit;
    view.slide(begin + by, end + by);
    moved();
  };
  const release = () => {
    over.classList.remove("panning");
    removeEventListener("mousemove", move);
    removeEventListener("mouseup", release);
  };
  over.classList.add("panning");
  addEventListener("mousemove", move);
  addEventListener("mouseup", release);
}
