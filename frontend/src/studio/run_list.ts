// All runs, each below the one that it was retrained from.
import { format, h } from "../dom";
import { colour } from "../theme";
import { deleteRun, resumeRun, stopRun } from "./api";
import { action, sureAction } from "./forms";
import { type Entry, Keyed, setText } from "./keyed";
import type { Store } from "./store";
import { busy, type Run } from "./types";
import { progress, standing } from "./words";

const EMPTY = "No runs yet. Press Train when there is data; what was learned appears here, round by round.";

export function installRunList(root: HTMLElement, store: Store): void {
  const empty = h("p", { class: "empty" }, EMPTY);
  const list = h("ul", { class: "entries", "aria-label": "Runs" });
  root.append(empty, list);
  const keyed = new Keyed<Run>(list, (run) => runEntry(run, store));
  store.listen(() => {
    empty.hidden = !store.known || store.runs.length > 0;
    const roots = store.runs.filter((run) => store.rootOf(run) === run);
    keyed.update(roots.flatMap((root) => [root, ...store.family(root).filter((run) => run !== root)]));
  });
}

function runEntry(first: Run, store: Store): Entry<Run> {
  const { id } = first;
  const name = h("button", { type: "button", class: "name" });
  const dot = h("span", { class: "dot" });
  const box = h("input", { type: "checkbox" });
  const show = h("label", { class: "show" }, box, dot);
  const facts = h("p", { class: "facts" });
  const bar = h("progress", { max: "1" });
  const verdict = h("p", { class: "verdict" });
  const stop = action("Stop", () => taken(store, stopRun(id)), `Stop ${first.name}`);
  const resume = action("Resume", () => taken(store, resumeRun(id)), `Resume ${first.name}`);
  const remove = sureAction("Delete", () => store.attempt(deleteRun(id)), `Delete ${first.name}`);
  stop.classList.add("quiet");
  resume.classList.add("quiet");
  const head = h("div", { class: "head" }, show, name);
  const root = h(
    "li",
    { class: "entry run" },
    head,
    facts,
    bar,
    verdict,
    h("div", { class: "buttons" }, stop, resume, remove),
  );
  name.onclick = () => {
    store.select({ run: id });
    // Where the lists lie above the run, it would change out of sight.
    if (matchMedia("(max-width: 60rem)").matches) document.getElementById("run")?.scrollIntoView();
  };
  box.onchange = () => store.show(id, box.checked);

  return {
    root,
    update(run) {
      const selected = store.run?.id === id;
      const other = store.others.find((shown) => shown.run.id === id);
      root.classList.toggle("selected", selected);
      root.classList.toggle("child", run.parent !== null && store.rootOf(run) !== run);
      root.dataset.status = run.status;
      setText(name, run.name);
      if (selected) name.setAttribute("aria-current", "true");
      else name.removeAttribute("aria-current");
      show.hidden = run.kind === "compare";
      box.checked = selected || other !== undefined;
      box.disabled = selected || !run.has.policy;
      box.setAttribute("aria-label", `Draw ${run.name} beside the selected run`);
      dot.style.setProperty("--dot", selected ? colour(1) : other ? colour(other.colour) : "transparent");
      dot.classList.toggle("on", selected || other !== undefined);
      const lambda = run.smoothness === null ? "" : ` · λ ${format(run.smoothness)}`;
      setText(facts, `${run.kind === "compare" ? "comparison · " : ""}${standing(run)}${lambda}`);
      bar.hidden = !busy(run);
      setProgress(bar, progress(run), `${run.name}: ${standing(run)}`);
      setText(verdict, run.status === "failed" ? (run.error ?? "") : firstSentence(run.verdict ?? ""));
      verdict.hidden = verdict.textContent === "";
      verdict.classList.toggle("trouble", run.status === "failed");
      stop.hidden = !busy(run);
      resume.hidden = run.status !== "stopped" && run.status !== "failed";
    },
  };
}

export function setProgress(bar: HTMLProgressElement, share: number | null, label: string): void {
  if (share === null) bar.removeAttribute("value");
  else bar.value = share;
  bar.setAttribute("aria-label", label);
}

async function taken(store: Store, request: Promise<Run>): Promise<void> {
  const run = await store.attempt(request);
  if (run !== null) store.takeRun(run);
}

/** The first sentence of a verdict; a point within a number ends none. */
function firstSentence(text: string): string {
  return /^.*?[.!?](?=\s|$)/s.exec(text)?.[0] ?? text;
}
