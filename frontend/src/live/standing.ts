// How it stands with a stream: who acts, and whether anybody can take it over.
import type { By } from "./session";

const SILENCE = 0.5; // seconds without a frame, and some periods, after which nothing is heard
const PERIODS = 3;

export interface Standing {
  connected: boolean;
  ended: boolean; // the stream is not there any more
  heard: number | null; // seconds since the latest frame; null as long as there is none
  period: number; // seconds between frames
  holds: boolean; // whether somebody here has it in hand
  by: By | undefined; // who acted in the latest frame
}

const isSilent = ({ heard, period }: Standing): boolean => heard !== null && heard > SILENCE + PERIODS * period;

/** Whether what a hand does gets there: nobody steers what they do not see. */
export const canAct = (standing: Standing): boolean =>
  standing.connected && !standing.ended && standing.heard !== null && !isSilent(standing);

/** Who acts, in words, and the kind of it. */
export function tell(standing: Standing): [text: string, kind: string] {
  if (!standing.connected) return ["No connection", "waiting"];
  if (standing.heard === null) return ["Waiting for a frame", "waiting"];
  if (standing.ended) return ["The stream has ended", "waiting"];
  if (isSilent(standing)) return ["Nothing is heard", "waiting"];
  if (standing.holds) return ["You act", "operator"];
  if (standing.by === "operator") return ["An operator acts", "operator"];
  if (standing.by === "gap") return ["A gap is bridged", "gap"];
  return standing.by === "policy" ? ["The policy acts", "policy"] : ["Waiting for a frame", "waiting"];
}
