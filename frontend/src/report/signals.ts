// "Is it on time?", "Is it smooth?", "Does it look like a person?": the policy against the expert by lag, frequency, motion.

import { lineChart } from "../charts";
import { add, format, h } from "../dom";
import type { Report } from "../payload";
import { type ChosenAction, type Section, section } from "./section";
import { sortable } from "./sortable";

export function lateSection(report: Report, action: ChosenAction): Section | null {
  const { lag, rate } = report;
  if (!lag || lag.frames.length === 0) return null;
  const words =
    "How alike the policy and the expert are when one is moved in time against the other. The peak says how late the " +
    "policy is over all sequences together; left of zero it would be early.";
  const draw = (root: HTMLElement, i: number) => {
    const best = lag.best[i] ?? null;
    const inTime = best !== null && rate ? ` = ${format((1000 * best) / rate, 2)} ms` : "";
    return lineChart(root, {
      x: lag.frames,
      series: [{ name: "correlation", colour: 1, values: lag.correlation[i] ?? [] }],
      xLabel: "frames late",
      yLabel: "correlation",
      marks: best === null ? [] : [{ x: best, label: `best: ${format(best, 2)} frames${inTime}` }],
    });
  };
  return perAction("late", "Lag", "Is it on time?", words, action, draw);
}

export function smoothSection(report: Report, action: ChosenAction): Section | null {
  const { spectrum } = report;
  if (!spectrum || spectrum.hertz.length === 0) return null;
  const words =
    "How strongly the action moves at each frequency. To the right are fast movements: where the policy lies above " +
    "the expert it jitters, where it lies below it is calmer.";
  const draw = (root: HTMLElement, i: number) =>
    lineChart(root, {
      x: spectrum.hertz,
      series: [
        { name: report.curves[0] ?? "expert", colour: 0, values: spectrum.expert[i] ?? [] },
        { name: report.curves[1] ?? "policy", colour: 1, values: spectrum.policy[i] ?? [] },
      ],
      xLabel: `frequency (${spectrum.unit})`,
      yLabel: "power",
      logX: true,
      logY: true,
      height: 280,
    });
  return perAction("smooth", "Spectrum", "Is it smooth?", words, action, draw);
}

export function motionSection({ motion }: Report): Section | null {
  if (!motion) return null;
  const words =
    "People hold and move. Reversals count how often an action turns round; rest is the share of time at rest. The " +
    "bars below the curves show when each of them rests.";
  const kinds = motion.columns.map((name, i) => ({ name, numeric: i > 1 }));
  const caption = "Reversals and rest of the policy and of the expert";
  const table = sortable(kinds, motion.rows, { caption });
  return section("motion", "Motion", "Does it look like a person?", words, table.root);
}

/** A section with a chart that is drawn anew for each action. */
function perAction(
  id: string,
  short: string,
  question: string,
  words: string,
  action: ChosenAction,
  draw: (root: HTMLElement, action: number) => () => void,
): Section {
  const chart = h("div");
  const controls = h("div", { class: "row controls" });
  add(controls, action.control());
  const made = section(id, short, question, words, controls, chart);
  made.draw = () => {
    let remove = draw(chart, action.value);
    action.onchange((i) => {
      remove();
      remove = draw(chart, i);
    });
  };
  return made;
}
