// The next version of the policy: learned from the recording, judged beside the one at work, and put to work.
import { format, h } from "../dom";
import { ask, getState, json, Refusal } from "../studio/api";
import { field, select } from "../studio/forms";
import { setOptions, setText } from "../studio/keyed";
import type { Data } from "../studio/types";
import { Poll } from "./poll";
import type { LeftOut } from "./session";

interface Verdict {
  over_baseline: { value: number | null }; // error over that of the policy at work
  groups: number;
}

interface Decision {
  accepted: boolean;
  reason: string;
  demonstrations: Verdict;
  corrections: Verdict;
  roughness: [old: number, new: number];
  reversals: [old: number, new: number];
}

export interface Improvement {
  policy: string | null; // null: the studio was not told which
  status: "none" | "running" | "done" | "failed" | "at work" | "outdated";
  error: string | null;
  digest?: string;
  decision?: Decision;
  stretches?: number; // that it was learned from
  left_out?: number;
  notes?: string[];
}

const SOON = 1000; // milliseconds until it is looked at again, while something is learned
const LATER = 5000; // and while nothing is: others put versions to work, too, and roll back

/** What there is to say of it. */
export function tell(found: Improvement, ready: boolean): string {
  const { policy, status, error, digest, decision } = found;
  const words = {
    none: ready ? "" : "Open the demonstrations in the studio first.",
    running: `Learning the next version of ${policy} …`,
    failed: error ?? "",
    done: decision?.reason ?? "",
    "at work": `Version ${digest?.slice(0, 12)} is at work; the service takes it over without a jump.`,
    outdated: `Another version of ${policy} was put to work since this one was judged: improve again.`,
  };
  return words[status];
}

/** What it was learned from. */
export function count({ stretches, left_out = 0 }: Improvement): string {
  if (stretches === undefined) return "";
  return `Learned from ${stretches} correction${stretches === 1 ? "" : "s"}, ${left_out} left out.`;
}

export class Improve {
  private readonly data = select([]);
  private readonly start = h("button", { type: "button", class: "main" }, "Improve");
  private readonly accept = h("button", { type: "button", class: "main", hidden: "" }, "Put it to work");
  private readonly told = h("p", { role: "status" });
  private readonly counted = h("p", { class: "facts" });
  private readonly verdict = h("div", {});
  private found: Improvement = { policy: null, status: "none", error: null };
  private shown = "";
  private asking = false;
  private readonly poll = new Poll(
    async () => {
      const found = await json<Improvement>(ask("GET", "api/improvement"));
      return { found, data: found.policy === null ? [] : (await getState()).data };
    },
    ({ found, data }) => {
      this.offer(data);
      this.show(found);
    },
    (sentence) => {
      this.shown = "";
      this.complain(sentence);
    },
    () => (this.found.status === "running" ? SOON : LATER),
  );

  constructor(
    private readonly root: HTMLElement,
    leftOut: () => LeftOut[],
  ) {
    const hint =
      "Learns from these demonstrations and from all recorded corrections but those that you leave out above.";
    root.append(h("p", { class: "hint" }, hint), field("Demonstrations", this.data));
    root.append(h("div", { class: "row" }, this.start, this.accept), this.told, this.counted, this.verdict);
    this.start.onclick = () => this.request("api/improvement", { data: this.data.value, left_out: leftOut() });
    this.accept.onclick = () => this.request("api/improvement/accept", {});
    void this.poll.start();
  }

  private offer(data: Data[]): void {
    const ready = data.filter(({ status }) => status === "ready");
    const chosen = ready.some(({ id }) => id === this.data.value) ? this.data.value : (ready.at(-1)?.id ?? "");
    setOptions(
      this.data,
      ready.map(({ id, name }) => [id, name]),
      chosen,
    );
  }

  private show(found: Improvement): void {
    const ready = this.data.options.length > 0;
    const now = JSON.stringify([found, ready]);
    this.found = found;
    this.enable();
    if (now === this.shown) return; // and what was refused meanwhile goes on being told
    this.shown = now;
    const { decision, status } = found;
    this.root.hidden = found.policy === null;
    this.root.dataset.status = status;
    this.accept.hidden = status !== "done";
    setText(this.accept, decision?.accepted ? "Put it to work" : "Put it to work anyway");
    this.accept.classList.toggle("main", decision?.accepted ?? false);
    setText(this.told, tell(found, ready));
    this.told.className = status === "failed" ? "trouble" : decision && !decision.accepted ? "fair" : "";
    setText(this.counted, count(found));
    this.verdict.replaceChildren(...(decision ? [compare(decision)] : []));
  }

  private complain(sentence: string): void {
    setText(this.told, sentence);
    this.told.className = "trouble";
  }

  private enable(): void {
    this.start.disabled = this.asking || this.found.status === "running" || this.data.options.length === 0;
    this.accept.disabled = this.asking;
  }

  private async request(path: string, wish: unknown): Promise<void> {
    this.asking = true;
    this.enable();
    try {
      await ask("POST", path, wish);
      await this.poll.start();
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.complain(error.message);
    } finally {
      this.asking = false;
      this.enable();
    }
  }
}

/** Both policies side by side. */
function compare({ demonstrations, corrections, roughness, reversals }: Decision): HTMLElement {
  const number = (value: number | null): HTMLElement => h("td", { class: "number" }, format(value));
  const row = (name: string, old: number | null, now: number | null): HTMLElement =>
    h("tr", {}, h("td", {}, name), number(old), number(now));
  const head = h("tr", {}, h("th", {}), h("th", { class: "number" }, "at work"), h("th", { class: "number" }, "new"));
  return h(
    "table",
    { class: "verdict" },
    h("thead", {}, head),
    h(
      "tbody",
      {},
      row(`error, ${demonstrations.groups} held-out demonstrations`, 1, demonstrations.over_baseline.value),
      row(`error, ${corrections.groups} held-out corrections`, 1, corrections.over_baseline.value),
      row("roughness (1: the expert’s)", ...roughness),
      row("changes of direction a minute", ...reversals),
    ),
  );
}
