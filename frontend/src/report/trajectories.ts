// "What did it do?": the curves of a sequence, its numbers, and the worst moments.

import { add, clock, format, h } from "../dom";
import type { Moment, Report } from "../payload";
import { TimeChart, type Track } from "../timechart";
import { type Place, readPlace, writePlace } from "./place";
import { type ChosenAction, choice, type Section, section } from "./section";
import { type Series, SeriesStore } from "./series";

const AROUND = 3; // a worst moment is shown with as much again on either side, times this

export class Trajectories {
  readonly section: Section;
  /** Told which sequence is shown. */
  onshow: (sequence: number) => void = () => {};

  private readonly store: SeriesStore;
  private readonly chartRoot = h("div");
  private readonly name = h("h3");
  private readonly numbers = h("dl", { class: "numbers" });
  private readonly trouble = h("p", { class: "trouble", role: "alert", hidden: true });
  private readonly select: HTMLSelectElement;
  private readonly moments: HTMLButtonElement[];
  private chart: TimeChart | null = null;
  private sequence: number;
  private touched = false;

  constructor(
    private readonly report: Report,
    private readonly action: ChosenAction,
  ) {
    const names = report.sequences.map(({ name }) => name);
    this.store = new SeriesStore(report);
    this.sequence = typical(report);
    const label = choice("Sequence", names, this.sequence, (i) => this.show(i));
    this.select = label.querySelector("select")!;
    const turn = (by: number, name: string, text: string) => {
      const press = () => this.show((this.sequence + by + names.length) % names.length);
      return h("button", { type: "button", "aria-label": name, title: name, onclick: press }, text);
    };
    const controls = h("div", { class: "row controls" });
    add(controls, names.length > 1 && turn(-1, "Previous sequence", "‹"), label);
    add(controls, names.length > 1 && turn(1, "Next sequence", "›"), action.control());
    this.moments = report.moments.map((moment, i) => this.momentButton(moment, i));
    const list = h("ol", { class: "moments" }, ...this.moments.map((button) => h("li", {}, button)));
    const worst = this.moments.length ? h("div", { class: "controls" }, h("h3", {}, "Worst moments"), list) : null;
    const beside = h("div", { class: "beside" }, h("div", {}, this.name, this.numbers), worst);
    this.section = section("curves", "Curves", "What did it do?", caption(report), controls, this.trouble);
    this.section.root.append(h("div", { class: "split" }, this.chartRoot, beside));
    this.section.draw = () => this.begin();
  }

  /** Show a sequence, from its beginning to its end or the frames given. */
  show(sequence: number, range: [number, number] | null = null): Promise<void> {
    this.touched = true;
    return this.load(sequence, range);
  }

  private begin(): void {
    this.chart = new TimeChart(this.chartRoot, {
      label: "Actions of the expert and of the policy over time",
      height: 390,
    });
    this.chart.onrange = () => this.remember();
    this.action.onchange(() => {
      this.touched = true;
      void this.load(this.sequence, this.chart!.range);
    });
    addEventListener("hashchange", () => this.follow(readPlace(location.hash)));
    const place = readPlace(location.hash);
    if (place) this.follow(place);
    else void this.load(this.sequence, null);
  }

  private follow(place: Place | null): void {
    if (!place) return;
    const range: [number, number] | null = place.begin !== null && place.end !== null ? [place.begin, place.end] : null;
    if (place.action !== this.action.value) this.action.value = place.action;
    void this.show(Math.min(place.sequence, this.report.sequences.length - 1), range);
  }

  private async load(sequence: number, range: [number, number] | null): Promise<void> {
    this.sequence = sequence;
    this.select.value = String(sequence);
    this.tell();
    this.onshow(sequence);
    try {
      const series = await this.store.of(sequence);
      if (sequence !== this.sequence) return; // another one was asked for meanwhile
      this.trouble.hidden = true;
      this.draw(series, range);
    } catch (error) {
      this.trouble.hidden = false;
      this.trouble.textContent = error instanceof Error ? error.message : String(error);
    }
  }

  private draw({ columns, holds }: Series, range: [number, number] | null): void {
    const { step, begins, frames } = this.report.sequences[this.sequence]!;
    const { actions, curves, rate } = this.report;
    const at = curves.length * actions.length + this.action.value; // where the ends of the band begin
    const [low, high] = [columns[at], columns[at + actions.length]];
    const around = low && high ? { low, high } : undefined;
    const tracks: Track[] = curves.map((name, curve) => {
      const column = curve * actions.length + this.action.value;
      const values = columns[column] ?? new Float32Array(0);
      const width = curve === 1 ? 2.25 : 1.25;
      return { name, colour: curve, values, holds: holds[column], width, band: curve === 1 ? around : undefined };
    });
    this.chart!.show({ tracks, rate, step, begins, unit: actions[this.action.value] ?? "" });
    if (range) this.chart!.go(...range);
    else this.chart!.go(0, frames);
    this.remember();
  }

  /** Keep the address up to date, once the reader has chosen something. */
  private remember(): void {
    const [begin, end] = this.chart!.range;
    const all = begin <= 0 && end >= this.report.sequences[this.sequence]!.frames;
    if (!all) this.touched = true;
    if (!this.touched) return;
    const range = all ? { begin: null, end: null } : { begin, end };
    writePlace({ sequence: this.sequence, action: this.action.value, ...range });
  }

  private tell(): void {
    const { name, frames, error, rmse, roughness, reversals, rest: rests, lag } = this.report.sequences[this.sequence]!;
    const { rate, actions } = this.report;
    const here = actions[this.action.value] ?? "action";
    const [turns, theirs] = reversals[this.action.value] ?? [];
    const [rest, expected] = rests[this.action.value] ?? [];
    const rows: [string, string, string][] = [
      ["Error", format(error), "in standard deviations of the expert's actions"],
      [`RMSE of ${here}`, format(rmse[this.action.value]), "in its own unit"],
      ["Roughness", format(roughness), "1: as the expert"],
      ["Reversals", format(turns), `${rate ? "a minute" : "in 1,000 frames"}; the expert ${format(theirs)}`],
      ["At rest", percent(rest), `of the time; the expert ${percent(expected)}`],
      ["Late by", lag === null ? "–" : `${format(lag, 2)} frames`, lag !== null && rate ? inTime(lag / rate) : ""],
      ["Length", rate ? clock(frames / rate) : `${format(frames)} frames`, rate ? `${format(frames)} frames` : ""],
    ];
    const cells = rows.flatMap(([name, value, note]) => [
      h("dt", {}, name),
      h("dd", {}, value, note ? h("span", { class: "faint" }, note) : null),
    ]);
    this.name.textContent = name;
    this.numbers.replaceChildren(...cells);
  }

  private momentButton(moment: Moment, i: number): HTMLButtonElement {
    const { sequences, actions, rate } = this.report;
    const at = (frame: number) => (rate ? clock(frame / rate, 1) : String(frame));
    const where = rate ? `${at(moment.begin)} to ${at(moment.end)}` : `frames ${at(moment.begin)} to ${at(moment.end)}`;
    const what = actions.length > 1 ? `${actions[moment.action]}, ` : "";
    const jump = () => void this.jump(moment, i);
    const button = h("button", { type: "button", class: "moment", onclick: jump });
    button.append(h("strong", {}, sequences[moment.sequence]!.name));
    button.append(h("span", { class: "faint" }, `${what}${where}, off by ${format(moment.error)}`));
    return button;
  }

  private async jump({ sequence, action, begin, end }: Moment, i: number): Promise<void> {
    const room = AROUND * (end - begin);
    if (action !== this.action.value) this.action.value = action;
    await this.show(sequence, [Math.max(0, begin - room), end + room]);
    this.chart!.mark(begin, end);
    for (const [j, button] of this.moments.entries()) button.toggleAttribute("data-shown", i === j);
  }
}

/** The sequence whose error is in the middle: neither the best nor the worst is what one may expect. */
function typical(report: Report): number {
  const measured = report.sequences.map(({ error }, i) => ({ error, i })).filter(({ error }) => error !== null);
  measured.sort((a, b) => a.error! - b.error!);
  return measured[Math.floor((measured.length - 1) / 2)]?.i ?? 0;
}

function percent(share: number | null | undefined): string {
  return share === null || share === undefined ? format(null) : `${format(Math.round(100 * share))} %`;
}

function said({ level, coverage, said }: NonNullable<Report["band"]>): string {
  return `The expert should be within the band around the policy in ${percent(level)} of the frames, and here is in ${percent(coverage)} (${said}).`;
}

function inTime(seconds: number): string {
  return `${format(1000 * seconds, 2)} ms`;
}

function caption(report: Report): string {
  const begun = report.sequences.some(({ begins }) => begins > 0);
  const thinned = report.sequences.some(({ step }) => step > 1);
  return [
    report.in_turn
      ? "In each recording acts what was learned from the others; the policy itself was learned from all of them."
      : "Recordings that were kept out of training.",
    "The policy sees what the expert saw and goes on from its own actions.",
    begun ? "The shaded beginning is the expert's own." : "",
    report.band ? said(report.band) : "",
    "The bars below the curves show when each of them rests.",
    "Drag across the curves to zoom in, drag the strip below to move.",
    thinned ? "Long recordings are thinned to their extremes." : "",
  ]
    .filter(Boolean)
    .join(" ");
}
