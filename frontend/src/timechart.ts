// Trajectories over time: zoom by dragging, wheel, keys and buttons, pan by the strip below. A million frames are fine.

import uPlot from "uplot";
import { axis, RIGHT, timeAxis, yAxis } from "./axes";
import { clock, format, h } from "./dom";
import { byDragging, byKey, byWheel, describe } from "./gestures";
import { LANE, lane, nameLanes } from "./lane";
import { type Legend, legend } from "./legend";
import { Pyramid, padded } from "./lod";
import { type Ribbon, ribbon, shade } from "./shade";
import { Strip } from "./strip";
import { colour, onTheme, PAPER } from "./theme";
import { View } from "./view";

/** A curve; its colour is colour(i). */
export interface Track {
  name: string;
  colour: number;
  values: Float32Array;
  holds?: number[] | undefined; // where it rests: first and last frame, in turn
  band?: Ribbon | undefined; // around it
  width?: number;
  dash?: number[];
}

/** What a chart shows: x is seconds where the rate is known, else frames; frames before `begins` are shaded. */
export interface Shown {
  tracks: Track[];
  rate: number | null;
  step: number; // frames between values
  begins: number;
  unit: string;
  origin?: number; // the frame that is called 0; the first, unless it is told
  span?: [low: number, high: number]; // of y; as the curves need it, unless it is told
}

const LEAST = 8; // values in view, at the closest

export class TimeChart {
  /** Told of every change of what is in view, in frames. */
  onrange: (begin: number, end: number) => void = () => {};

  private shown: Shown = { tracks: [], rate: null, step: 1, begins: 0, unit: "" };
  private order: number[] = []; // in which tracks are drawn
  private pyramids: Pyramid[] = []; // in that order
  private marked: [number, number] | null = null;
  private kind = "";
  private told = "";
  private pending = 0;
  private plot: uPlot | null = null;
  private legend: Legend | null = null;
  private readonly hidden = new Set<string>();
  private readonly view = new View();
  private readonly height: number;
  private readonly striped: boolean; // whether all of it is shown below
  private readonly strip = new Strip(58);
  private readonly area = h("div", { class: "plot chart" });
  private readonly top = h("div", { class: "top" });
  private readonly now = h("span", { class: "now" });
  private readonly observer = new ResizeObserver(() => this.resize(this.root.clientWidth));
  private readonly unlisten: () => void;

  constructor(
    private readonly root: HTMLElement,
    options: { height?: number; label?: string; strip?: boolean } = {},
  ) {
    this.height = options.height ?? 320;
    this.striped = options.strip ?? true;
    this.strip.root.hidden = !this.striped;
    root.classList.add("timechart");
    describe(root, options.label ?? "Trajectories over time");
    const tool = (text: string, name: string, act: () => void) =>
      h("button", { type: "button", "aria-label": name, title: name, onclick: () => this.move(act) }, text);
    const tools = h("div", { class: "tools" }, this.now);
    tools.append(
      tool("−", "Zoom out", () => this.view.zoom(2)),
      tool("+", "Zoom in", () => this.view.zoom(0.5)),
      tool("All", "Show all of it", () => this.view.go(0, this.view.frames)),
    );
    this.top.append(tools);
    root.append(this.top, this.area, this.strip.root);
    root.addEventListener("keydown", (event) => {
      if (!byKey(this.view, event)) return;
      event.preventDefault();
      this.moved();
    });
    this.area.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.strip.onmove = (begin, end) => this.move(() => this.view.slide(begin / this.unit, end / this.unit));
    this.strip.onresize = (begin, end) => this.go(begin / this.unit, end / this.unit);
    this.observer.observe(root);
    this.unlisten = onTheme((printing) => this.dress(printing));
  }

  /** Show other curves; with `keepRange` the same stretch of time as before. */
  show(shown: Shown, keepRange = false): void {
    const length = Math.max(1, ...shown.tracks.map((track) => track.values.length));
    // The first is the one to compare with: it lies on top, but below what is dashed.
    const rank = (i: number) => (shown.tracks[i]!.dash ? 1000 : 0) - i;
    this.shown = shown;
    this.order = shown.tracks.map((_, i) => i).sort((a, b) => rank(a) - rank(b));
    this.pyramids = this.order.map((i) => new Pyramid(padded(shown.tracks[i]!.values, length)));
    if (!keepRange) this.marked = null;
    this.view.fit(length * shown.step, LEAST * shown.step, keepRange);
    const looks = shown.tracks.map(({ name, colour, width, dash }) => [name, colour, width, dash]);
    const { rate, unit, origin } = shown;
    const kind = JSON.stringify([looks, rate, unit, origin, this.view.frames, this.lanes.length]);
    if (kind !== this.kind) this.build();
    else this.showStrip();
    this.kind = kind;
    this.moved();
  }

  /** Show the frames from `begin` to `end`. */
  go(begin: number, end: number): void {
    this.move(() => this.view.go(begin, end));
  }

  /** The frames in view. */
  get range(): [number, number] {
    return [this.view.begin, this.view.end];
  }

  /** Highlight the frames from `begin` to `end`. */
  mark(begin: number, end: number): void {
    this.marked = [begin, end];
    this.schedule();
    this.strip.redraw();
  }

  /** Where the curves are drawn, in pixels of the page; null as long as there are none. */
  get box(): DOMRect | null {
    return this.plot?.over.getBoundingClientRect() ?? null;
  }

  destroy(): void {
    cancelAnimationFrame(this.pending);
    this.observer.disconnect();
    this.unlisten();
    this.legend?.destroy();
    this.plot?.destroy();
    this.strip.destroy();
    this.root.replaceChildren();
  }

  /** Units of x in a frame. */
  private get unit(): number {
    return this.shown.rate === null ? 1 : 1 / this.shown.rate;
  }

  private get width(): number {
    return Math.max(160, this.root.clientWidth);
  }

  private move(act: () => void): void {
    act();
    this.moved();
  }

  /** The view is another: tell everyone. */
  private moved(): void {
    const { begin, end } = this.view;
    this.root.dataset.begin = String(Math.round(begin));
    this.root.dataset.end = String(Math.round(end));
    this.strip.place(begin * this.unit, end * this.unit);
    this.schedule();
    const now = `${begin} ${end}`;
    if (now !== this.told) this.onrange(begin, end);
    this.told = now;
  }

  private schedule(): void {
    if (this.pending === 0) this.pending = requestAnimationFrame(() => this.draw());
  }

  private wheel(event: WheelEvent): void {
    if (!this.plot) return;
    const box = this.plot.over.getBoundingClientRect();
    const about = this.view.begin + ((event.clientX - box.left) / box.width) * this.view.width;
    if (!byWheel(this.view, event, box.width, about)) return;
    event.preventDefault();
    this.moved();
  }

  private build(): void {
    const { tracks, rate, unit, origin = 0 } = this.shown;
    this.plot?.destroy();
    this.legend?.destroy();
    const entries = tracks.map(({ name, colour, dash }) => ({ name, colour, dash: dash !== undefined }));
    this.legend = legend(entries, (i, shown) => this.toggle(i, shown), this.hidden);
    this.top.prepend(this.legend.root);
    const time = rate === null ? axis({ size: 30, space: 70 }) : timeAxis(this.view.frames / rate, origin / rate);
    const room = LANE * this.lanes.length;
    const press = (event: MouseEvent, select: (event: MouseEvent) => unknown) =>
      event.shiftKey ? byDragging(this.view, event, this.plot!.over, () => this.moved()) : select(event);
    const options: uPlot.Options = {
      width: this.width,
      height: this.height,
      padding: [10, RIGHT, 0, 0],
      series: [{}, ...this.series()],
      scales: {
        x: { time: false, range: () => [this.view.begin * this.unit, this.view.end * this.unit] },
        y: {
          range: (_, low, high) => this.shown.span ?? (low === null ? [0, 1] : uPlot.rangeNum(low, high, 0.1, true)),
        },
      },
      axes: [{ ...time, gap: 4 + room, size: 30 + room }, yAxis(unit ? { label: unit } : {})],
      cursor: {
        drag: { x: true, y: false, setScale: false },
        y: false,
        points: { show: false },
        bind: {
          mousedown: (_, __, select) => (event) => press(event, select) as null,
          dblclick: () => () => this.go(0, this.view.frames) as unknown as null,
        },
      },
      legend: { show: false },
      hooks: {
        drawClear: [(u) => this.shade(u)],
        drawAxes: [(u) => this.rest(u)],
        setSelect: [(u) => this.brushed(u)],
        setCursor: [(u) => this.say(u)],
      },
    };
    this.plot = new uPlot(options, [[], ...tracks.map(() => [])], this.area);
    this.showStrip();
  }

  private series(): uPlot.Series[] {
    return this.order.map((i) => {
      const { name, colour: index, width, dash } = this.shown.tracks[i]!;
      return {
        label: name,
        show: !this.hidden.has(name),
        stroke: () => colour(index),
        width: width ?? 1.5,
        points: { show: false },
        pxAlign: 0,
        ...(dash ? { dash } : {}),
      };
    });
  }

  private showStrip(): void {
    if (!this.striped) return;
    const data = this.extremes(0, this.view.frames, Math.min(600, this.width));
    this.strip.show(this.series(), data, [0, this.view.frames * this.unit], this.width, (u) => this.shade(u));
  }

  /** The curves from `begin` to `end`, in at most so many buckets, as uPlot likes them. */
  private extremes(begin: number, end: number, buckets: number): uPlot.AlignedData {
    const { step } = this.shown;
    const found = this.pyramids.map((pyramid) => pyramid.extremes(begin / step, end / step, buckets));
    const x = Array.from(found[0]?.x ?? [], (i) => i * step * this.unit);
    // For what is missing uPlot wants null.
    return [x, ...found.map(({ y }) => Array.from(y, (value) => (Number.isNaN(value) ? null : value)))];
  }

  private draw(): void {
    this.pending = 0;
    if (!this.plot) return;
    const {
      plot,
      view: { begin, end },
      shown: { step },
    } = this;
    // Two values for each pixel of the screen, and one more on either side: the lines go on beyond the edges.
    const data = this.extremes(begin - step, end + 2 * step, plot.bbox.width);
    this.root.dataset.points = String(data[0].length);
    plot.batch(() => {
      plot.setData(data, false);
      plot.setScale("x", { min: begin * this.unit, max: end * this.unit });
    });
  }

  private toggle(i: number, shown: boolean): void {
    const name = this.shown.tracks[i]!.name;
    const drawn = this.order.indexOf(i) + 1;
    if (shown) this.hidden.delete(name);
    else this.hidden.add(name);
    this.plot?.setSeries(drawn, { show: shown });
    this.strip.toggle(drawn, shown);
  }

  private shade(u: uPlot): void {
    if (this.shown.begins > 0) shade(u, 0, this.shown.begins * this.unit, "--shade");
    if (this.marked) shade(u, this.marked[0] * this.unit, this.marked[1] * this.unit, "--mark", 3);
    for (const { name, colour: index, band } of this.shown.tracks) {
      if (band && !this.hidden.has(name)) ribbon(u, band, this.shown.step, this.unit, colour(index));
    }
  }

  /** The tracks of which it is known where they rest, each with a lane below the curves. */
  private get lanes(): Track[] {
    return this.shown.tracks.filter(({ holds }) => holds !== undefined);
  }

  private rest(u: uPlot): void {
    if (this.lanes.length) nameLanes(u, this.lanes.length);
    for (const [i, { name, colour: index, holds }] of this.lanes.entries()) {
      lane(u, i, this.hidden.has(name) ? [] : holds!, this.unit, colour(index));
    }
  }

  private brushed(u: uPlot): void {
    const { left, width } = u.select;
    if (width < 4) return;
    const frame = (pixels: number) => u.posToVal(pixels, "x") / this.unit;
    const [begin, end] = [frame(left), frame(left + width)];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.go(begin, end);
  }

  private say(u: uPlot): void {
    const { tracks, rate, step, origin = 0 } = this.shown;
    const left = u.cursor.left ?? -1;
    const at = left < 0 ? -1 : Math.max(0, Math.round(u.posToVal(left, "x") / this.unit / step));
    for (const [i, { values }] of tracks.entries()) this.legend?.say(i, at < 0 ? "" : format(values[at]));
    this.now.textContent =
      at < 0 ? "" : rate === null ? `frame ${at * step - origin}` : clock((at * step - origin) / rate);
  }

  private resize(width: number): void {
    const wide = Math.max(160, width);
    if (!this.plot || width <= 0 || wide === this.plot.width) return;
    this.plot.setSize({ width: wide, height: this.height });
    this.strip.resize(wide);
    this.schedule();
  }

  private dress(printing: boolean): void {
    this.resize(printing ? Math.min(PAPER, this.width) : this.root.clientWidth);
    this.plot?.redraw(false);
    this.strip.redraw();
  }
}
