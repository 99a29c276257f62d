// What comes first: the answers in short, and notes.

import { h } from "../dom";
import type { Answer, Report } from "../payload";
import { type Section, section } from "./section";

// Colour alone would not do: a sign and a word too.
const MOODS: Record<Answer["mood"], [sign: string, word: string]> = {
  good: ["✓", "good"],
  fair: ["~", "not sure"],
  poor: ["✗", "poor"],
  unknown: ["?", "not known"],
  plain: ["i", "to know"],
};

export function answersSection(report: Report): Section {
  const cards = report.answers.map(({ question, answer, mood }) => {
    const [sign, word] = MOODS[mood];
    const badge = h("p", { class: "mood" }, h("span", { class: "sign", "aria-hidden": "true" }, sign), word);
    return h("article", { class: `answer ${mood}` }, badge, h("h3", {}, question), h("p", {}, answer));
  });
  const made = section("short", "In short", "In short", "", h("div", { class: "answers" }, ...cards));
  made.root.querySelector(".caption")!.remove();
  made.root.querySelector("h2")!.className = "hidden";
  made.root.classList.remove("card");
  if (report.notes.length) {
    const notes = report.notes.map((note) => h("li", {}, note));
    made.root.append(h("aside", { class: "notes", "aria-label": "Notes" }, h("ul", {}, ...notes)));
  }
  return made;
}

// Answers whose section asks in other words.
const ELSEWHERE: Record<string, string> = { "Is it accurate?": "errors" };

/** Let each answer lead to the section that asks the same question. */
export function linkAnswers(answers: HTMLElement, sections: Section[]): void {
  for (const heading of answers.querySelectorAll(".answer h3")) {
    const asked = heading.textContent!;
    const found = sections.find(({ question, id }) => question === asked || id === ELSEWHERE[asked]);
    if (found) heading.parentElement!.append(h("a", { class: "more", href: `#${found.id}` }, "Show me"));
  }
}

export function footer(report: Report): string {
  const made = new Date(report.made);
  const date = Number.isNaN(made.getTime()) ? report.made : made.toLocaleString("en", { dateStyle: "long" });
  return `Made by simile ${report.version}, ${date}.`;
}
