// Which columns of a table are actions, contexts, sequence and time.
import { h } from "../dom";
import { readAgain } from "./api";
import { field, numberInput, select } from "./forms";
import { setOptions } from "./keyed";
import type { Store } from "./store";
import type { Data, ReadOptions } from "./types";

// Columns that are hardly ever a context, so that they need not be unticked.
const CLOCKS = /^(t|time|timestamp|date|seconds?|frame|index|sequence|episode|id)$/i;

interface Row {
  name: string;
  action: HTMLInputElement;
  context: HTMLInputElement;
}

export class ChooseForm {
  readonly root = h("form", { class: "choose" });
  onread: () => void = () => {};
  private rows: Row[] = [];
  private data: Data | null = null;
  private ticked = ""; // the contexts as they were at first
  private readonly body = h("tbody", {});
  private readonly sequence = select([]);
  private readonly group = select([]);
  private readonly time = select([]);
  private readonly timeUnit = select([
    ["", "automatic"],
    ["s", "seconds"],
    ["ms", "milliseconds"],
    ["us", "microseconds"],
    ["ns", "nanoseconds"],
  ]);
  private readonly rate = numberInput({ min: 0, step: "any" });
  private readonly gap = numberInput({ min: 0, step: "any" });
  private readonly resample = numberInput({ min: 0, step: "any" });
  private readonly submit = h("button", { type: "submit", class: "main" }, "Read it so");

  constructor(private readonly store: Store) {
    for (const input of [this.rate, this.gap, this.resample]) {
      input.required = false;
      input.placeholder = "automatic";
    }
    this.gap.placeholder = this.resample.placeholder = "none";
    const heads = ["Column", "Action", "Context"].map((text) => h("th", { scope: "col" }, text));
    const table = h("table", { class: "columns-table" }, h("thead", {}, h("tr", {}, ...heads)), this.body);
    this.root.append(
      h("p", { class: "hint" }, "Actions are what the policy will do; contexts are what it sees when it decides."),
      h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Columns" }, table),
      h(
        "div",
        { class: "grid" },
        field("Sequence column", this.sequence),
        field("Held out as a whole", this.group),
        field("Time column", this.time),
        field("Unit of time", this.timeUnit),
        field("Frames per second", this.rate),
        field("New sequence after a gap of (s)", this.gap),
        field("Resample to (Hz)", this.resample),
        this.submit,
      ),
    );
    this.root.onsubmit = (event) => {
      event.preventDefault();
      void this.read();
    };
  }

  fill(data: Data): void {
    if (data === this.data) return;
    this.data = data;
    const { understood, options } = data;
    const actions = understood?.actions ?? options.actions ?? [];
    const numeric = data.columns.filter((column) => column.kind === "number").map((column) => column.name);
    const contexts = understood?.contexts ?? numeric.filter((name) => !actions.includes(name) && !CLOCKS.test(name));
    this.rows = numeric.map((name) => tickRow(name, actions.includes(name), contexts.includes(name)));
    this.body.replaceChildren(
      ...this.rows.map((row) =>
        h("tr", {}, h("th", { scope: "row" }, row.name), h("td", {}, row.action), h("td", {}, row.context)),
      ),
    );
    this.ticked = this.contexts().join("\n");
    const names = data.columns.map((column): [string, string] => [column.name, column.name]);
    const others = names.filter(([name]) => name !== "sequence" && !name.includes(":"));
    const guess: [string, string] = ["", "automatic"];
    setOptions(this.sequence, [guess, ...names], options.sequence ?? "");
    setOptions(this.group, [guess, ["sequence", "single sequences"], ...others], options.group ?? "");
    setOptions(this.time, [guess, ...names], options.time ?? "");
    this.timeUnit.value = options.time_unit ?? "";
    this.rate.value = String(options.rate ?? "");
    this.gap.value = String(options.gap ?? "");
    this.resample.value = String(options.resample ?? "");
  }

  private contexts(): string[] {
    return this.rows.filter((row) => row.context.checked || row.action.checked).map((row) => row.name);
  }

  private options(): ReadOptions {
    const options: ReadOptions = {};
    const actions = this.rows.filter((row) => row.action.checked).map((row) => row.name);
    if (actions.length > 0) options.actions = actions;
    // Left alone, the contexts are all other numbers, and simile finds the columns of time and sequence among them.
    if (this.contexts().join("\n") !== this.ticked || this.data?.options.contexts !== undefined) {
      options.contexts = this.rows.filter((row) => row.context.checked).map((row) => row.name);
    }
    if (this.sequence.value) options.sequence = this.sequence.value;
    if (this.group.value) options.group = this.group.value;
    if (this.time.value) options.time = this.time.value;
    if (this.timeUnit.value) options.time_unit = this.timeUnit.value;
    if (this.rate.value) options.rate = this.rate.valueAsNumber;
    if (this.gap.value) options.gap = this.gap.valueAsNumber;
    if (this.resample.value) options.resample = this.resample.valueAsNumber;
    return options;
  }

  private async read(): Promise<void> {
    if (this.data === null) return;
    this.submit.disabled = true;
    const data = await this.store.attempt(readAgain(this.data.id, this.options()));
    this.submit.disabled = false;
    if (data === null) return;
    this.store.takeData(data);
    if (data.status !== "ready") return;
    this.store.select({ data: data.id });
    this.onread();
  }
}

function tickRow(name: string, isAction: boolean, isContext: boolean): Row {
  const tick = (what: string, checked: boolean): HTMLInputElement => {
    const box = h("input", { type: "checkbox", "aria-label": `${name} is ${what}` });
    box.checked = checked;
    return box;
  };
  const action = tick("an action", isAction);
  const context = tick("a context", isContext);
  action.onchange = () => {
    if (action.checked) context.checked = false;
  };
  context.onchange = () => {
    if (context.checked) action.checked = false;
  };
  return { name, action, context };
}
