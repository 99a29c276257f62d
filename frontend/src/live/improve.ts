// The next version of the policy: learned from the recording, judged beside the one at work, and put to work.
import { format, h } from "../dom";
import { ask, getState, json, Refusal } from "../studio/api";
import { field, select } from "../studio/forms";
import { setOptions, setText } from "../studio/keyed";
import type { Session } from "./session";

interface Paired {
  old: number | null; // RMSE, in standard deviations
  new: number | null;
  groups: number;
}

interface Verdict {
  accepted: boolean;
  reason: string;
  demonstrations: Paired;
  corrections: Paired;
  roughness: [old: number, new: number];
  reversals: [old: number, new: number];
}

interface Improvement {
  policy: string | null; // null: the studio was not told which
  status: "none" | "running" | "done" | "failed" | "at work";
  error: string | null;
  digest?: string;
  verdict?: Verdict;
  notes?: string[];
}

const AGAIN = 1000; // milliseconds

export class Improve {
  private readonly data = select([]);
  private readonly start = h("button", { type: "button", class: "main" }, "Improve");
  private readonly accept = h("button", { type: "button", class: "main", hidden: "" }, "Put it to work");
  private readonly told = h("p", { role: "status" });
  private readonly verdict = h("div", {});
  private timer = 0;

  constructor(
    private readonly root: HTMLElement,
    private readonly session: () => Session | null,
  ) {
    const hint =
      "Learns from these demonstrations and from all recorded corrections but those that you leave out above.";
    root.append(h("p", { class: "hint" }, hint), field("Demonstrations", this.data));
    root.append(h("div", { class: "row" }, this.start, this.accept), this.told, this.verdict);
    this.start.onclick = () => this.request("api/improvement", { data: this.data.value, left_out: this.leftOut() });
    this.accept.onclick = () => this.request("api/improvement/accept", {});
    void this.look();
  }

  private async look(): Promise<void> {
    const found = await json<Improvement>(ask("GET", "api/improvement"));
    if (found.policy === null) return;
    this.root.hidden = false;
    const { data } = await getState();
    const ready = data.filter(({ status }) => status === "ready");
    const chosen = this.data.value || ready.at(-1)?.id || "";
    setOptions(
      this.data,
      ready.map(({ id, name }) => [id, name]),
      chosen,
    );
    this.show(found, ready.length > 0);
  }

  private show(found: Improvement, ready = true): void {
    const running = found.status === "running";
    this.root.dataset.status = found.status;
    this.start.disabled = running || !ready;
    this.accept.hidden = found.status !== "done";
    const verdict = found.verdict;
    setText(this.accept, verdict?.accepted ? "Put it to work" : "Put it to work anyway");
    this.accept.classList.toggle("main", verdict?.accepted ?? false);
    const words = {
      none: ready ? "" : "Open the demonstrations in the studio first.",
      running: `Learning the next version of ${found.policy} …`,
      failed: found.error ?? "",
      done: verdict?.reason ?? "",
      "at work": `Version ${found.digest?.slice(0, 12)} is at work; the service takes it over without a jump.`,
    };
    setText(this.told, words[found.status]);
    this.told.className = found.status === "failed" ? "trouble" : verdict && !verdict.accepted ? "fair" : "";
    this.verdict.replaceChildren(...(verdict ? [compare(verdict)] : []));
    clearTimeout(this.timer);
    if (running || !ready) this.timer = window.setTimeout(() => void this.look(), AGAIN);
  }

  private async request(path: string, wish: unknown): Promise<void> {
    try {
      this.show(await json<Improvement>(ask("POST", path, wish)));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      setText(this.told, error.message);
      this.told.className = "trouble";
    }
  }

  private leftOut(): unknown[] {
    const found = this.session();
    const stretches = found?.stretches.filter(({ leftOut }) => leftOut) ?? [];
    return stretches.map(({ frames, first, last }) => ({
      stream: found!.seated.stream,
      first: frames[first]!.n,
      last: frames[last - 1]!.n,
    }));
  }
}

/** Both policies side by side. */
function compare({ demonstrations, corrections, roughness, reversals }: Verdict): HTMLElement {
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
      row(`error, ${demonstrations.groups} held-out demonstrations`, demonstrations.old, demonstrations.new),
      row(`error, ${corrections.groups} held-out corrections`, corrections.old, corrections.new),
      row("roughness (1: the expert’s)", ...roughness),
      row("changes of direction a minute", ...reversals),
    ),
  );
}
