// What the policy did, beside the expert: curves of a held-out sequence, and the slider that bends them.
import { h } from "../dom";
import { colour } from "../theme";
import { TimeChart, type Track } from "../timechart";
import { getSequences, Refusal } from "./api";
import { field, select } from "./forms";
import { setOptions, setText } from "./keyed";
import { Line, type Place } from "./line";
import { numbersTable, type Row } from "./numbers";
import { Retraining } from "./retraining";
import { SmoothnessSlider } from "./slider";
import type { Store } from "./store";
import { busy, type Run, type Sequences } from "./types";
import { lateness, plural } from "./words";

const PREVIEW = "preview";
const DASH = [7, 5];
const SETTLED = 300; // ms without zooming, after which the address follows

export class CurvesView {
  readonly root: HTMLElement;
  /** Told of every move of the slider. */
  onslide: () => void = () => {};
  private readonly sequence = select([]);
  private readonly action = select([]);
  private readonly note = h("p", { class: "empty", role: "status" });
  private readonly body = h("div", {});
  private readonly status = h("p", { class: "retraining", role: "status" });
  private readonly numbers = numbersTable();
  private readonly slider = new SmoothnessSlider();
  private readonly chart: TimeChart;
  private readonly own = new Line((place) => this.arrived(place));
  private readonly preview = new Line((place) => this.arrived(place));
  private readonly others = new Map<string, Line>();
  private readonly retraining: Retraining;
  private readonly known = new Map<string, Sequences>(); // of each run
  private readonly asking = new Set<string>();
  private run: Run | null = null;
  private drawn = ""; // the run's data and sequence in the chart
  private timer = 0;

  constructor(private readonly store: Store) {
    const area = h("div", { id: "curves" });
    const previous = h("button", { type: "button", "aria-label": "Previous sequence" }, "‹");
    const next = h("button", { type: "button", "aria-label": "Next sequence" }, "›");
    previous.onclick = () => this.step(-1);
    next.onclick = () => this.step(1);
    this.sequence.id = "sequence";
    this.action.id = "action";
    const choices = h("div", { class: "row choices" }, previous, field("Sequence", this.sequence), next);
    choices.append(field("Action", this.action));
    this.body.append(choices, area, this.slider.root, this.status, this.numbers.root);
    this.root = h(
      "section",
      { class: "card", id: "what-it-did", "aria-labelledby": "curves-title" },
      h("h2", { id: "curves-title" }, "What it did"),
      h(
        "p",
        { class: "caption" },
        "Sequences that the policy has not seen. In the shaded frames the expert still leads.",
      ),
      this.note,
      this.body,
    );
    this.chart = new TimeChart(area, { height: 300, label: "The expert’s and the policies’ actions over time" });
    this.chart.onrange = (begin, end) => this.zoomed(begin, end);
    this.retraining = new Retraining(store, (text) => setText(this.status, text));
    this.sequence.onchange = () => store.select({ sequence: Number(this.sequence.value), range: null });
    this.action.onchange = () => store.select({ action: this.action.value });
    this.slider.oninput = (time) => {
      this.refresh(time);
      this.onslide();
    };
    this.slider.onrest = () => {
      if (this.run !== null) void this.retraining.rest(this.run, this.slider.value);
    };
  }

  /** Where the curves are: for the court. */
  get place(): { sequence: number; smoothness: number | null } | null {
    const info = this.info;
    return info === null ? null : { sequence: this.index(info), smoothness: this.slider.value };
  }

  update(run: Run): void {
    const another = run.id !== this.run?.id;
    this.run = run;
    if (another) {
      this.own.clear();
      this.preview.clear();
      this.retraining.forget();
      if (this.info !== null) this.slider.setRange(this.info.smoothness, true);
    }
    this.root.hidden = run.kind === "compare";
    if (run.kind === "compare") return;
    if (run.has.policy) this.ask(run);
    for (const { run: other } of this.store.others) if (other.has.policy) this.ask(other);
    this.retraining.update(run);
    this.refresh(performance.now());
  }

  private get info(): Sequences | null {
    return this.run === null ? null : (this.known.get(this.run.id) ?? null);
  }

  private index(info: Sequences): number {
    return Math.min(this.store.selection.sequence, Math.max(0, info.sequences.length - 1));
  }

  /** Ask once which sequences a run was held to; what its smoothness is may change until it is done. */
  private ask(run: Run): void {
    const key = `${run.id}/${busy(run)}/${run.smoothness}`;
    if (this.asking.has(key)) return;
    this.asking.add(key);
    getSequences(run.id).then(
      (found) => {
        this.known.set(run.id, found);
        if (run.id === this.run?.id) this.slider.setRange(found.smoothness, false);
        this.store.changed();
      },
      (error: unknown) => {
        this.asking.delete(key);
        if (!(error instanceof Refusal)) throw error;
        setText(this.note, error.message);
      },
    );
  }

  /** Ask for every curve that should be there; `since`: when the user wished it. */
  private refresh(since: number): void {
    const { run, info } = this;
    const ready = run?.has.policy && info !== null && info.sequences.length > 0;
    this.body.hidden = !ready;
    this.note.hidden = Boolean(ready);
    if (!run || !ready || info === null) {
      setText(this.note, waitingWords(run));
      return;
    }
    const sequence = this.index(info);
    const name = info.sequences[sequence]!.name;
    setOptions(
      this.sequence,
      info.sequences.map((entry, i) => [String(i), `${entry.name} (${plural(entry.frames, "frame")})`]),
      String(sequence),
    );
    setOptions(
      this.action,
      info.actions.map((action) => [action, action]),
      info.actions[this.actionIndex(info.actions)]!,
    );
    this.own.want({ run, sequence, smoothness: null, since });
    const smoothness = this.slider.value;
    const retrained = smoothness === null ? null : this.retraining.finished(run, smoothness);
    const covered = this.store.others.some((other) => other.run === retrained);
    if (smoothness === null || covered) this.preview.clear();
    else this.preview.want({ run, sequence, smoothness, since });
    for (const { run: other } of this.store.others) {
      // Other runs may have been held to other sequences, or number them otherwise.
      const at = other.data === run.data ? this.known.get(other.id)?.sequences.findIndex((s) => s.name === name) : -1;
      if (at === undefined || at < 0 || !other.has.policy) continue;
      if (!this.others.has(other.id)) this.others.set(other.id, new Line((place) => this.arrived(place)));
      this.others.get(other.id)!.want({ run: other, sequence: at, smoothness: null, since });
    }
    const shown = this.store.others.map((other) => other.run.id);
    for (const id of this.others.keys()) if (!shown.includes(id)) this.others.delete(id);
    const family = this.store.family(run).filter((other) => other.smoothness !== null && other.has.policy);
    this.slider.setMarks(
      family.map((other) => ({
        value: other.smoothness!,
        name: other === run ? "This run" : other.name,
        own: other === run,
        colour: colour(other === run ? 1 : (this.store.others.find((o) => o.run === other)?.colour ?? 7)),
      })),
    );
    this.draw();
  }

  private actionIndex(actions: string[]): number {
    return Math.max(0, actions.indexOf(this.store.selection.action ?? ""));
  }

  private draw(): void {
    const { run, own } = this;
    if (run === null || own.rolled === null) {
      setText(this.status, own.trouble);
      return;
    }
    if (this.preview.trouble) setText(this.status, this.preview.trouble);
    const rows: Row[] = [{ name: run.name, colour: 1, rolled: own.rolled }];
    for (const { run: other, colour } of this.store.others) {
      const rolled = this.others.get(other.id)?.rolled;
      if (rolled) rows.push({ name: other.name, colour, rolled });
    }
    if (this.preview.rolled) rows.push({ name: PREVIEW, colour: this.store.nextColour, rolled: this.preview.rolled });
    this.numbers.update(rows, this.actionIndex(own.rolled.actions));
    const at = this.slider.value;
    const retrained = at === null ? null : this.retraining.finished(run, at);
    const measured = this.preview.rolled ?? this.others.get(retrained?.id ?? "")?.rolled ?? own.rolled;
    this.slider.say(measured.lag === null ? "" : lateness(measured.lag, measured.rate));
    const fits = rows.filter(({ rolled }) => rolled.step === own.rolled!.step);
    const a = this.actionIndex(own.rolled.actions);
    const policies = fits.map(({ name, colour, rolled }): Track => {
      const values = rolled.values[1]![this.actionIndex(rolled.actions)]!;
      return { name, colour, values, width: 1.75, ...(rolled.preview ? { dash: DASH } : {}) };
    });
    const expert: Track = { name: "expert", colour: 0, values: own.rolled.values[0]![a]!, width: 1.25 };
    const { rate, step, begins, frames } = own.rolled;
    const place = `${run.data}/${this.sequence.value}/${frames}`;
    const keep = place === this.drawn;
    this.drawn = place;
    this.chart.show({ tracks: [expert, ...policies], rate, step, begins, unit: own.rolled.actions[a]! }, keep);
    if (!keep && this.store.selection.range) this.chart.go(...this.store.selection.range);
  }

  private arrived(place: Place): void {
    this.draw();
    if (place.smoothness === null) return;
    // The chart draws with the next frame; what is asked for after it comes after it.
    requestAnimationFrame(() => {
      const end = performance.now();
      performance.measure("slide", { start: place.since, end });
      document.body.dataset.slide = (end - place.since).toFixed(1);
    });
  }

  private step(by: number): void {
    const n = this.info?.sequences.length ?? 0;
    if (n > 0) this.store.select({ sequence: (Number(this.sequence.value) + by + n) % n, range: null });
  }

  private zoomed(begin: number, end: number): void {
    clearTimeout(this.timer);
    // Browsers refuse to change the address many times a second.
    this.timer = window.setTimeout(() => {
      const frames = this.own.rolled?.frames ?? 0;
      const all = begin <= 0 && end >= frames;
      this.store.select({ range: all ? null : [Math.round(begin), Math.round(end)] });
    }, SETTLED);
  }
}

function waitingWords(run: Run | null): string {
  if (run?.status === "failed") return "This run ended before it had a policy.";
  if (run?.status === "waiting") return "This run waits for its turn; then its curves appear here.";
  return run?.has.policy ? "Rolling out the policy …" : "The curves appear here after the first round.";
}
