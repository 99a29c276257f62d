// The court from above: its lines, and its landmarks to choose from.
import type { Board, Court } from "./board";
import { points, s } from "./svg";

export class Plan {
  private court: Court | null = null;
  private high = false; // whether landmarks above the ground are of use

  constructor(
    private readonly root: HTMLElement,
    private readonly board: Board,
  ) {
    board.listen(() => this.mark());
  }

  show(court: Court, high: boolean): void {
    if (court === this.court && high === this.high) return;
    this.court = court;
    this.high = high;
    const air = 0.06 * court.length;
    const [wide, deep] = [court.length + 2 * air, court.width + 2 * air];
    // y goes away from the camera, which is up on the plan.
    const flip = (line: number[]): number[] => line.map((value, i) => (i % 2 ? -value : value));
    const lines = court.lines.map((line) => s("polyline", { class: "line", points: points(flip(line)) }));
    const drawing = s(
      "svg",
      { class: "whole", viewBox: `${-wide / 2} ${-deep / 2} ${wide} ${deep}`, role: "group" },
      ...lines,
    );
    drawing.setAttribute("aria-label", `Landmarks of ${court.name}`);
    drawing.append(...this.landmarks(court));
    this.root.replaceChildren(drawing);
    this.mark();
  }

  private landmarks(court: Court): SVGElement[] {
    const radius = court.length / 75;
    return Object.entries(court.landmarks)
      .filter(([, point]) => this.high || point[2] === 0)
      .map(([name, [x, y, z]]) => {
        // What is above the ground is drawn beside it, for something may be below.
        const beside = z ? Math.sign(x) * 2.6 * radius : 0;
        const dot = s("circle", { cx: x + beside, cy: -y, r: radius });
        const title = s("title");
        title.textContent = z ? `${name}, ${z} m high` : name;
        const landmark = s("g", { class: "landmark", role: "button", tabindex: 0, "data-name": name }, dot, title);
        landmark.setAttribute("aria-label", name);
        const choose = (): void => this.board.choose(name);
        landmark.addEventListener("click", choose);
        landmark.addEventListener("keydown", (event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          choose();
        });
        return landmark;
      });
  }

  private mark(): void {
    const placed = new Set(this.board.clicks.map((click) => click.name));
    for (const landmark of this.root.querySelectorAll<SVGElement>(".landmark")) {
      const name = landmark.dataset.name!;
      landmark.classList.toggle("placed", placed.has(name));
      landmark.classList.toggle("chosen", this.board.chosen === name);
      landmark.setAttribute("aria-pressed", String(this.board.chosen === name));
    }
  }
}
