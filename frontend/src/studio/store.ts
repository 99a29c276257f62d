// What is known of the server, what the user has selected, and who wants to hear of changes.
import { Refusal } from "./api";
import type { Connection } from "./events";
import { formatSelection, parseSelection, type Selection } from "./selection";
import type { Data, Message, Run } from "./types";

export class Store {
  known = false; // whether the server has said anything yet
  connection: Connection = "on";
  version = "";
  uploadLimit = Number.POSITIVE_INFINITY;
  algorithms: string[] = [];
  data: Data[] = [];
  runs: Run[] = []; // newest first
  selection: Selection = parseSelection(location.hash);
  complaints: string[] = [];
  private readonly listeners: (() => void)[] = [];
  private queued = false;

  constructor() {
    addEventListener("hashchange", () => {
      this.selection = parseSelection(location.hash);
      this.changed();
    });
  }

  /** `f` is called after changes, once for all that happened in a row. */
  listen(f: () => void): void {
    this.listeners.push(f);
  }

  changed(): void {
    if (this.queued) return;
    this.queued = true;
    queueMicrotask(() => {
      this.queued = false;
      for (const f of this.listeners) f();
    });
  }

  take(message: Message): void {
    if (message.type === "state") {
      this.known = true;
      this.version = message.version;
      this.uploadLimit = message.limits.upload;
      this.algorithms = message.algorithms;
      this.data = message.data;
      this.runs = [...message.runs].sort(newestFirst);
    } else if (message.type === "data") {
      this.takeData(message.data);
    } else if (message.type === "run") {
      this.takeRun(message.run);
    } else {
      this.data = this.data.filter((data) => data.id !== message.data);
      this.runs = this.runs.filter((run) => run.id !== message.run);
    }
    this.changed();
  }

  takeData(data: Data): void {
    const known = this.data.some((d) => d.id === data.id);
    this.data = known ? this.data.map((d) => (d.id === data.id ? data : d)) : [...this.data, data];
    this.changed();
  }

  takeRun(run: Run): void {
    this.runs = [...this.runs.filter((r) => r.id !== run.id), run].sort(newestFirst);
    this.changed();
  }

  connected(connection: Connection): void {
    this.connection = connection;
    this.changed();
  }

  /** Change what is selected; the address follows. */
  select(change: Partial<Selection>): void {
    this.selection = { ...this.selection, ...change };
    history.replaceState(null, "", formatSelection(this.selection) || location.pathname);
    this.changed();
  }

  /** The run that is looked at: the selected one, or the newest where there is none such. */
  get run(): Run | null {
    return this.runs.find((run) => run.id === this.selection.run) ?? this.runs.find((r) => !r.parent) ?? null;
  }

  /** The data to learn from next. */
  get chosenData(): Data | null {
    const ready = this.data.filter((data) => data.status === "ready");
    return ready.find((data) => data.id === this.selection.data) ?? ready.at(-1) ?? null;
  }

  private get shown(): Run[] {
    const runs = this.selection.shown.map((id) => this.runs.find((run) => run.id === id));
    return runs.filter((run) => run !== undefined);
  }

  /** Other runs to draw beside the one that is looked at, with the numbers of their colours. */
  get others(): { run: Run; colour: number }[] {
    return this.shown.map((run, i) => ({ run, colour: colourOf(i) })).filter(({ run }) => run !== this.run);
  }

  /** The colour that the next other run will get. */
  get nextColour(): number {
    return colourOf(this.shown.length);
  }

  show(id: string, shown = true): void {
    const others = this.shown.map((run) => run.id).filter((other) => other !== id);
    this.select({ shown: shown ? [...others, id] : others });
  }

  /** All runs that began with the same one and differ by their smoothness. */
  family(run: Run): Run[] {
    const root = this.rootOf(run);
    return this.runs.filter((other) => this.rootOf(other) === root);
  }

  rootOf(run: Run): Run {
    let root = run;
    for (let depth = 0; root.parent !== null && depth < this.runs.length; depth++) {
      const parent = this.runs.find((other) => other.id === root.parent);
      if (parent === undefined) break;
      root = parent;
    }
    return root;
  }

  complain(what: unknown): void {
    const text = what instanceof Error ? what.message : String(what);
    if (!this.complaints.includes(text)) this.complaints = [...this.complaints, text];
    this.changed();
  }

  dismiss(text: string): void {
    this.complaints = this.complaints.filter((complaint) => complaint !== text);
    this.changed();
  }

  /** Wait for a request; its refusal is shown, and `null` returned. */
  async attempt<T>(request: Promise<T>): Promise<T | null> {
    try {
      return await request;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.complain(error);
      return null;
    }
  }
}

const newestFirst = (a: Run, b: Run): number => b.started.localeCompare(a.started) || b.id.localeCompare(a.id);

const OTHER_COLOURS = [2, 3, 4, 5, 6];
const colourOf = (i: number): number => OTHER_COLOURS[i % OTHER_COLOURS.length]!;
