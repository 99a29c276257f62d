// The run that is looked at: its verdict and all its charts.
import { h } from "../dom";
import { ContestView } from "./contest_view";
import { CourtView } from "./court_view";
import { CurvesView } from "./curves_view";
import { DownloadsView } from "./downloads";
import { setText } from "./keyed";
import { RoundsView } from "./rounds_view";
import type { Store } from "./store";
import type { Run } from "./types";
import { standing } from "./words";

export function installRunView(root: HTMLElement, store: Store): void {
  const title = h("h2", {});
  const facts = h("p", { class: "facts" });
  const verdict = h("p", { class: "verdict large" });
  const summary = h("p", { class: "facts" });
  const trouble = h("p", { class: "trouble" });
  const notes = h("ul", { class: "notes" });
  const head = h(
    "section",
    { class: "card", id: "verdict", "aria-label": "Verdict" },
    title,
    facts,
    verdict,
    summary,
    trouble,
    notes,
  );
  const curves = new CurvesView(store);
  const rounds = new RoundsView();
  const contest = new ContestView();
  const court = new CourtView();
  const downloads = new DownloadsView();
  const all = h("div", {}, head, curves.root, court.root, rounds.root, contest.root, downloads.root);
  all.hidden = true;
  root.append(all);

  store.listen(() => {
    const { run } = store;
    all.hidden = run === null;
    if (run === null) return;
    setText(title, run.name);
    setText(facts, factsOf(run, store));
    setText(verdict, run.verdict ?? (run.status === "running" ? "Learning …" : ""));
    verdict.hidden = verdict.textContent === "";
    setText(summary, run.summary ?? "");
    summary.hidden = run.summary === null;
    setText(trouble, run.error ?? "");
    trouble.hidden = run.error === null;
    setNotes(notes, run.notes);
    curves.update(run);
    rounds.update(run);
    contest.update(run);
    court.update(run, curves.place);
    downloads.update(run);
  });
  curves.onslide = () => store.run && court.update(store.run, curves.place);
}

function setNotes(list: HTMLElement, notes: string[]): void {
  list.hidden = notes.length === 0;
  const same =
    list.childElementCount === notes.length && notes.every((note, i) => list.children[i]!.textContent === note);
  if (!same) list.replaceChildren(...notes.map((note) => h("li", {}, note)));
}

function factsOf(run: Run, store: Store): string {
  const data = store.data.find((entry) => entry.id === run.data)?.name;
  const kind = run.kind === "compare" ? "comparison" : String(run.options.algorithm ?? "learn");
  return [data, kind, standing(run)].filter(Boolean).join(" · ");
}
