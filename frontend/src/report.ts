// The report: words first, then charts, then the curves of one sequence.

import { h } from "./dom";
import type { Report } from "./payload";
import { choosingSection } from "./report/choosing";
import { answersSection, footer, linkAnswers } from "./report/header";
import { againSection, attentionSection, trustSection } from "./report/reasons";
import { ChosenAction, type Section } from "./report/section";
import { sequencesSection } from "./report/sequences";
import { lateSection, motionSection, smoothSection } from "./report/signals";
import { trainingSection } from "./report/training";
import { Trajectories } from "./report/trajectories";
import { installTheme } from "./theme";

const at = (id: string) => document.getElementById(id)!;

function sectionsOf(report: Report): Section[] {
  const action = new ChosenAction(report.actions);
  const first: Section[] = [answersSection(report)];
  if (report.sequences.length) {
    const curves = new Trajectories(report, action);
    const { made, table } = sequencesSection(report, (row) => {
      void curves.show(row);
      curves.section.root.scrollIntoView();
    });
    curves.onshow = (sequence) => table.choose(sequence);
    first.push(curves.section, made);
  }
  const rest = [
    choosingSection(report),
    trainingSection(report),
    lateSection(report, action),
    smoothSection(report, action),
    motionSection(report),
    attentionSection(report),
    trustSection(report),
    againSection(report),
  ];
  return [...first, ...rest.filter((made) => made !== null)];
}

function main(): void {
  const report = JSON.parse(at("report").textContent!) as Report;
  const sections = sectionsOf(report);
  at("subtitle").textContent = report.subtitle;
  at("footer").textContent = footer(report);
  at("main").append(...sections.map(({ root }) => root));
  at("sections").append(...sections.map(({ id, short }) => h("a", { href: `#${id}` }, short)));
  linkAnswers(sections[0]!.root, sections);
  installTheme(at("theme") as HTMLButtonElement);
  at("print").addEventListener("click", () => print());
  // The words are painted before charts are made, and curves can be read only when the whole file is there.
  const draw = () => {
    for (const { draw } of sections) draw();
    document.body.dataset.drawn = "true";
  };
  const later = () => requestAnimationFrame(() => setTimeout(draw));
  if (document.readyState === "loading") addEventListener("DOMContentLoaded", later);
  else later();
}

main();
