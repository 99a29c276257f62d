// What to learn next, and how.
import { h } from "../dom";
import { startRun } from "./api";
import { field, numberInput, select, textInput } from "./forms";
import { setOptions, setText } from "./keyed";
import type { Store } from "./store";
import type { Wish } from "./types";

type Goal = "expert" | "ratio" | "seconds" | "lambda";

const GOALS: Record<Goal, { text: string; label: string; value: string }> = {
  expert: { text: "as smooth as the expert", label: "", value: "" },
  ratio: { text: "a share of the expert’s roughness", label: "Times as rough", value: "0.5" },
  seconds: { text: "as a lag in seconds", label: "Seconds late", value: "0.3" },
  lambda: { text: "as a number (lambda)", label: "Lambda", value: "10" },
};

// The text fields are what `simile train --help` takes.
const ADVANCED: [option: string, label: string, placeholder: string][] = [
  ["model", "Model", "SmoothForest(n_trees=64)"],
  ["horizon", "Horizon", "Horizon(context_lags=10, action_lags=10)"],
  ["regularizer", "Regularizer", "CriticallyDamped(order=3)"],
  ["hold", "Hold still", "as the expert does; 0 for never, 0.1, Hold(0.1, stepping=True)"],
  ["loss", "Loss", "Squared(); Huber() for data with outliers"],
  ["n_rounds", "Rounds", "automatic"],
  ["lead", "Lead (seconds)", "0; -0.5 may wait, 0.1 for a late actuator; to compare: 0, -0.5, -1"],
];
// The ones that `simile compare` takes too.
const COMPARED = ["model", "loss", "n_rounds", "lead"];

export function installStartPanel(root: HTMLElement, store: Store): void {
  const empty = h("p", { class: "empty" });
  const data = select([]);
  const algorithm = select([]);
  const goal = select(Object.entries(GOALS).map(([value, { text }]) => [value, text]));
  const amount = numberInput({ min: 0, step: "any" });
  goal.id = "goal";
  amount.id = "amount";
  const amountField = field("How much", amount);
  const seed = numberInput({ min: 0, step: 1, value: 0 });
  seed.id = "seed";
  const texts = ADVANCED.map(([option, label, placeholder]) => ({ option, label, input: textInput(placeholder) }));
  const rivals = h("input", { type: "checkbox", id: "rivals" });
  rivals.checked = true;
  const meaning = h("p", { class: "tick hint", id: "lead-meaning" });
  const lead = texts.find(({ option }) => option === "lead")!.input;
  lead.id = "lead";
  lead.oninput = () => setText(meaning, tellLead(lead.value));
  const train = h("button", { type: "submit", class: "main", value: "train" }, "Train");
  const compare = h("button", { type: "submit", value: "compare" }, "Compare");
  compare.title = "Every algorithm and what an engineer would build by hand, on the same held-out sequences";
  const advanced = h(
    "details",
    { class: "advanced" },
    h("summary", {}, "Advanced"),
    h("div", { class: "grid" }, ...texts.map(({ label, input }) => field(label, input))),
    meaning,
    h(
      "p",
      { class: "tick" },
      rivals,
      h("label", { for: "rivals" }, "Compare also with what an engineer would build by hand"),
    ),
  );
  const form = h(
    "form",
    { class: "start", id: "start-form" },
    h(
      "div",
      { class: "grid" },
      field("Learn from", data),
      field("Algorithm", algorithm),
      field("How smooth", goal),
      amountField,
      field("Seed", seed),
      h("div", { class: "buttons" }, train, compare),
    ),
    advanced,
  );
  root.append(empty, form);

  const showAmount = (): void => {
    const { label, value } = GOALS[goal.value as Goal];
    amountField.hidden = label === "";
    amount.required = label !== "";
    amount.value = value;
    setText(amountField.querySelector("label")!, label);
  };
  goal.onchange = showAmount;
  showAmount();
  data.onchange = () => store.select({ data: data.value });

  form.onsubmit = async (event) => {
    event.preventDefault();
    const kind = (event.submitter as HTMLButtonElement | null)?.value === "compare" ? "compare" : "train";
    const wish: Wish = { kind, data: data.value, seed: seed.valueAsNumber };
    if (kind === "train") wish.algorithm = algorithm.value;
    else wish.rivals = rivals.checked;
    const smoothness = goalText(goal.value as Goal, amount.value, kind === "compare" ? "learn" : algorithm.value);
    if (smoothness) wish.smoothness = smoothness;
    for (const { option, input } of texts) {
      const text = input.value.trim();
      if (text && (kind === "train" || COMPARED.includes(option)))
        wish[option] = option === "n_rounds" ? Number(text) : option === "lead" ? readLead(text, kind) : text;
    }
    for (const button of [train, compare]) button.disabled = true;
    const run = await store.attempt(startRun(wish));
    for (const button of [train, compare]) button.disabled = store.chosenData === null;
    if (run === null) return;
    store.takeRun(run);
    store.select({ run: run.id, range: null });
  };

  store.listen(() => {
    const ready = store.data.filter((entry) => entry.status === "ready");
    const chosen = store.chosenData;
    form.hidden = chosen === null;
    empty.hidden = !store.known || chosen !== null;
    setText(
      empty,
      store.data.some((entry) => entry.status === "choose")
        ? "Say on the left which columns are the actions; then you can train."
        : "Open a data file or simulate camera games on the left; then you can train a policy here.",
    );
    setOptions(
      data,
      ready.map((entry) => [entry.id, entry.name]),
      chosen?.id ?? "",
    );
    const names = store.algorithms.map((name): [string, string] => [name, name]);
    setOptions(algorithm, names, algorithm.value || store.algorithms[0] || "");
    for (const button of [train, compare]) button.disabled = chosen === null;
  });
}

/** A smoothness as `simile train --smoothness` takes it; nothing where it is the default. */
function goalText(goal: Goal, amount: string, algorithm: string): string {
  if (goal === "expert") return algorithm === "learn" ? "" : "MatchExpert()";
  if (goal === "ratio") return `MatchExpert(${amount})`;
  return goal === "seconds" ? `SmoothTime(${amount})` : amount;
}

/** The leads of a comparison, or the one of a training; a text that is none is for the server to refuse. */
function readLead(text: string, kind: "train" | "compare"): Wish[string] {
  const numbers = text.split(",").map(Number);
  if (numbers.some(Number.isNaN) || (kind === "train" && numbers.length > 1)) return text;
  return kind === "train" ? numbers[0]! : numbers;
}

/** Say what a lead means. */
function tellLead(text: string): string {
  const seconds = Number(text);
  if (seconds < 0) return `The policy waits ${-seconds} s: the answer to a frame comes ${-seconds} s after it.`;
  return seconds > 0 ? `The policy aims ${seconds} s ahead: what it says at a frame is for ${seconds} s later.` : "";
}
