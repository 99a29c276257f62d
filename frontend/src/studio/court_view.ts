// A held-out game from above, with what the operator's camera and the policy's see.
import { format, h } from "../dom";
import { courtPath } from "./api";
import { busy, type Run } from "./types";

interface Place {
  sequence: number;
  smoothness: number | null;
}

export class CourtView {
  readonly root: HTMLElement;
  private readonly area = h("div", { class: "court" });
  private readonly again = h("button", { type: "button" });
  private shown = "";

  constructor() {
    this.root = h(
      "section",
      { class: "card", id: "court", "aria-labelledby": "court-title" },
      h("h2", { id: "court-title" }, "On the court"),
      h("p", { class: "caption" }, "The game of the sequence above, with the operator’s camera and the policy’s."),
      this.again,
      this.area,
    );
  }

  update(run: Run, place: Place | null): void {
    this.root.hidden = !run.has.court || place === null;
    if (this.root.hidden || place === null) return;
    const basic = `${run.id}/${busy(run) ? run.rounds.length : run.status}/${place.sequence}`;
    if (!this.shown.startsWith(`${basic}/`)) this.load(run, { ...place, smoothness: null }, basic);
    // A game that plays is not begun again by a touch of the slider: only when asked to.
    const wanted = `${basic}/${place.smoothness}`;
    this.again.hidden = wanted === this.shown;
    this.again.textContent =
      place.smoothness === null ? "Play it with the run’s own smoothness" : `Play it at λ ${format(place.smoothness)}`;
    this.again.onclick = () => {
      this.load(run, place, basic);
      this.again.hidden = true;
    };
  }

  private load(run: Run, place: Place, basic: string): void {
    this.shown = `${basic}/${place.smoothness}`;
    // A new element: changing the address of an old one would add to the browser's history.
    const frame = h("iframe", {
      sandbox: "allow-scripts",
      title: `The game with the camera of ${run.name}`,
      loading: "lazy",
      src: courtPath(run.id, place.sequence, place.smoothness),
    });
    this.area.replaceChildren(frame);
  }
}
