"""`simile camera live`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from simile.cli import INTERRUPTED, options
from simile.cli.camera.games import aim_stages, court_options, features_of, place_of
from simile.cli.camera.hands import operator_of, take_over_option
from simile.cli.camera.heads import driver_of, head_options, tell_timing

if TYPE_CHECKING:
    from simile.camera.calibration import Calibration
    from simile.camera.heads import Driver
    from simile.camera.live.detectors import Detector
    from simile.camera.live.lines import Lines
    from simile.camera.live.outputs import Cut, Log
    from simile.camera.live.pipeline import Moment, Output, Pipeline
    from simile.camera.live.sights import Through
    from simile.camera.live.sources import Source
    from simile.online import Recorder
    from simile.policies.policies import Policy

SAME_SHAPE = 0.01  # by which pictures of one camera may differ in their shape
LAYOUTS = ("yolov5", "yolov8", "end2end", "end2end7", "torchvision")


@click.command(short_help="Film live: video in, a head or a picture out.")
@click.argument("source")
@click.option("--policy", type=click.Path(path_type=Path), required=True, help="Who films.")
@click.option(
    "--calibration",
    type=click.Path(path_type=Path),
    help="Where on the court a pixel is: what `simile camera calibrate` wrote. Boxes need it, and so does --out.",
)
@click.option("--homography", type=click.Path(path_type=Path), help="The same as a plain 3 x 3 matrix in a file.")
@click.option(
    "--poses",
    metavar="head|FILE",
    help="Where the camera looks, if it moves: 'head' if it is that of --head, or a table of time, pan, tilt and zoom.",
)
@click.option("--latency", type=float, default=0.0, help="Seconds by which the picture comes later than the poses.")
@court_options
@click.option(
    "--detector",
    default="motion",
    help="'motion' (what moves before a still background), an ONNX file, or python:MODULE:FUNCTION, whose code is run.",
)
@click.option("--background", type=click.Path(path_type=Path), help="For 'motion': a picture of the empty court.")
@click.option(
    "--detections",
    metavar="FILE|-|cmd:COMMAND",
    help="Lines of JSON from elsewhere, instead of a detector: a file, stdin, or what a command writes.",
)
@click.option("--score", type=float, default=0.3, help="How sure an ONNX model must be.")
@click.option("--class", "classes", multiple=True, help="What it must see: a number or a name. May be repeated.")
@click.option("--layout", type=click.Choice(LAYOUTS), help="Of its boxes, where that is not recognised.")
@head_options
@click.option(
    "--out",
    multiple=True,
    help="Write what the policy shows of the picture: .mp4, .mov, .mkv, .ts, or to a player: udp://, srt://, rtmp://, "
    "rtsp://. May be repeated.",
)
@click.option("--fov", type=float, help="Degrees across the width of a panorama, to cut by instead of --calibration.")
@click.option("--size", type=(int, int), default=(1280, 720), help="Width and height of what is written.")
@options.stage_option
@options.record_options
@click.option("--log", type=click.Path(path_type=Path), help="A line for every frame: .csv or .jsonl.")
@take_over_option
@click.option("--fast", is_flag=True, help="Read a file as fast as it goes, and drop nothing.")
@click.option("--seconds", type=float, help="Stop after so many seconds of video.")
@click.option("--retry", type=float, default=60.0, help="Seconds to try a lost stream again.")
@click.option("--every", type=float, default=10.0, help="Seconds between two lines about how it goes; 0 for none.")
@options.policy_options
@click.pass_context
def live(
    ctx: click.Context, /, source: str, policy: Path, trust: tuple[str, ...], max_memory: float | None, **given: Any
) -> None:
    """Film SOURCE while it is played: a file, a URL (rtsp://, udp://, srt://, rtmp://) or webcam:0.

    People are detected, brought to the court, and shown to the policy, which turns a head (--head), or cuts its view
    out of the picture (--out), or both. Of frames that come faster than they are dealt with, the newest counts. Ctrl-C
    stops the head smoothly and finishes the files.
    """
    from simile.camera.live.sources import Source

    if not (given["head"] or given["out"] or given["log"] or given["record"]):
        raise click.ClickException("nothing would come of it: say where it goes with --head, --out, --log or --record")
    loaded, interrupted = options.load_policy(policy, trust, max_memory), False
    with ExitStack() as stack:
        video = Source(source, fast=given["fast"], retry=given["retry"], tell=_say)
        stack.callback(video.close)
        recorder = stack.enter_context(options.recording(given, policy))
        pipeline = _assemble(stack, video, loaded, recorder, given)
        log = _open_log(given["log"], loaded)
        stack.enter_context(video)
        report = Report(video, given["every"])
        try:
            for moment in pipeline.film(video, seconds=given["seconds"] or float("inf")):
                if log is not None:
                    log.note(moment)
                report.note(moment)
        except KeyboardInterrupt:  # the usual end of a broadcast: all is finished, and summed up
            interrupted = True
    report.sum_up(pipeline.outputs)
    if interrupted:
        ctx.exit(INTERRUPTED)


def _assemble(
    stack: ExitStack, video: Source, policy: Policy, recorder: Recorder | None, given: dict[str, Any]
) -> Pipeline:
    """Open all that stands behind a source; the stack closes it."""
    from simile.camera.heads.driver import BRAKES
    from simile.camera.live.acting import Actor
    from simile.camera.live.outputs import Turned
    from simile.camera.live.pipeline import Pipeline, tell_kept

    court, camera = place_of(given)
    _check_still(given)
    turns = given["head"] is not None and video.live
    lead = tell_timing(policy, video.rate, turns=turns, cuts=bool(given["out"]))
    calibration = _read_calibration(video, given)
    detector = _open_detector(stack, video, calibration, given)
    stages = options.stages_of(given["stage"])
    # What brakes a head is the business of its driver; twice would be late.
    braking = stages[-1:] if given["head"] is not None and isinstance((*stages, None)[-1], BRAKES) else ()
    aimed = aim_stages(policy, court, camera, stages[: len(stages) - len(braking)])
    actor = Actor(policy, features_of(policy, court), rate=video.rate, stages=aimed, recorder=recorder)
    if lead < 0:
        _say(tell_kept(actor, video))
    outputs: list[Output] = []
    place: Calibration | Through | None = calibration
    if given["head"] is not None:
        driver = stack.enter_context(driver_of(policy, braking, given))
        outputs.append(Turned(driver))
        if given["poses"] == "head":
            place = _look_through(driver, calibration, given["latency"])
    outputs += [stack.enter_context(_open_cut(out, video, calibration, given)) for out in given["out"]]
    return Pipeline(detector, actor, court, place, outputs, operator_of(stack, given))


def _read_calibration(video: Source, given: dict[str, Any]) -> Calibration | None:
    from simile.camera.sight import choose_calibration

    moving = given["poses"] not in (None, "head")
    found = choose_calibration(
        calibration=given["calibration"],
        homography=given["homography"],
        poses=given["poses"] if moving else None,
        latency=given["latency"] if moving else 0.0,
        camera=given["camera"],
        size=video.size,
        rate=video.rate,
    )
    return None if found is None else found.resized(video.size)


def _check_still(given: dict[str, Any]) -> None:
    """Refuse what a moving camera cannot have."""
    if given["poses"] is None:
        if given["latency"]:
            raise click.ClickException("--latency is that of the --poses of a camera that moves: say where they are")
        return
    if given["poses"] == "head" and given["head"] is None:
        raise click.ClickException("--poses head are those of a --head: say which")
    if given["detector"] == "motion" and given["detections"] is None:
        raise click.ClickException(
            "--poses say that the camera moves, and then all of its picture does: give a --detector that knows people, "
            "or --detections"
        )
    if given["out"] and given["fov"] is None:
        raise click.ClickException("--out cuts the picture of a camera that stands still; --poses say that it moves")


def _look_through(driver: Driver, calibration: Calibration | None, latency: float) -> Through:
    from simile.camera.calibration import View
    from simile.camera.live.sights import Through

    if not isinstance(calibration, View):
        raise click.ClickException(
            "--poses head needs the camera and its lens: a --calibration by `simile camera calibrate --model camera`"
        )
    head: Any = driver.head
    return Through(calibration, lambda: head.pose, latency=latency)


def _open_detector(
    stack: ExitStack, video: Source, calibration: Calibration | None, given: dict[str, Any]
) -> Detector | Lines:
    from simile.camera.live.detectors import Function, Motion
    from simile.camera.live.lines import Lines
    from simile.camera.live.networks import Network

    name = given["detector"]
    if given["detections"] is not None:
        if click.get_current_context().get_parameter_source("detector") is ParameterSource.COMMANDLINE:
            raise click.ClickException("--detections take the place of a --detector: leave out one of them")
        if given["detections"] == "-" and given["take_over"] == "keys":
            raise click.ClickException("--detections - and --take-over keys would both read stdin: use cmd: or a file")
        return stack.enter_context(Lines(given["detections"], sys.stdin, numbered=video.fast))
    if calibration is None:
        raise click.ClickException(
            "--calibration is missing: it tells where on the court the boxes of a detector are; `simile camera "
            "calibrate` makes one. Lines of --detections with positions in metres need none"
        )
    if name == "motion":
        return Motion(calibration, background=_read_picture(given["background"], video))
    if name.startswith("python:"):
        return Function(name.removeprefix("python:"))
    if not name.lower().endswith(".onnx"):
        raise click.ClickException(f"--detector must be motion, a file.onnx or python:MODULE:FUNCTION; got {name!r}")
    return Network(name, score=given["score"], classes=given["classes"], layout=given["layout"])


def _read_picture(path: Path | None, video: Source) -> Any:
    """Return a picture of the size of a video."""
    from simile._common.needs import need

    if path is None:
        return None
    cv2 = need("cv2", "--background", extra="live")
    read = cv2.imread(str(path)) if path.is_file() else None
    if read is None:
        raise click.ClickException(f"--background: {path} cannot be read as a picture: give a .png or .jpg")
    if abs(read.shape[1] * video.size[1] / (read.shape[0] * video.size[0]) - 1.0) > SAME_SHAPE:
        told = f"{read.shape[1]} x {read.shape[0]} pixels, and the video {video.size[0]} x {video.size[1]}"
        raise click.ClickException(f"--background: {path} has {told}: take it with the same camera")
    return cv2.cvtColor(cv2.resize(read, video.size), cv2.COLOR_BGR2RGB)


def _open_cut(out: str, video: Source, calibration: Calibration | None, given: dict[str, Any]) -> Cut:
    from simile.camera.film.panorama import Calibrated, Panorama
    from simile.camera.live.outputs import Cut

    court, camera = place_of(given)
    still = camera.still_view(court)
    if calibration is None and given["fov"] is None:
        raise click.ClickException("--out needs a --calibration of the picture, or --fov, to know where to cut")
    windows = (
        Panorama(given["fov"], (0.0, still[0]), camera.lens.widest, still)
        if calibration is None or given["fov"] is not None
        else Calibrated(calibration, camera, still)
    )
    return Cut(out, windows, size=given["size"], rate=video.rate, fast=video.fast)


def _open_log(path: Path | None, policy: Policy) -> Log | None:
    from simile.camera.live.outputs import Log
    from simile.policies.policies import timing

    if path is None:
        return None
    return Log(path, policy.card.context_names, policy.n_actions, waits=timing(policy)[0] < 0)


# --------------------------------------------------------------------------------------------------------- what is said


def _say(sentence: str) -> None:
    click.echo(f"simile: {sentence}", err=True)


class Report:
    """Says how it goes, now and then, and how it went.

    Parameters
    ----------
    video : Source
        What is filmed.
    every : float
        Seconds between two lines; 0 for none.
    """

    def __init__(self, video: Source, every: float) -> None:
        from simile.camera.live.latencies import Latencies

        self.video, self.every, self.latencies = video, every, Latencies()
        self.frames = self.by_operator = self.people = 0
        self._began = self._said = time.perf_counter()
        self._before = 0  # frames when the last line was said

    def note(self, moment: Moment) -> None:
        """Count a moment, and say what is to be said."""
        self.latencies.note(moment.spent)
        self.frames += 1
        self.people += len(moment.positions)
        self.by_operator += moment.who == "operator"
        for doubt in moment.doubts:
            _say(doubt)
        now = time.perf_counter()
        if self.every and now - self._said >= self.every:
            fresh, passed = self.frames - self._before, now - self._said
            where = ", ".join(f"{angle:.1f}" for angle in moment.sent)
            click.echo(
                f"{moment.shot.time:8.1f} s  {fresh / passed:5.1f} frames/s, {self.video.dropped} dropped, "
                f"{len(moment.positions)} people, {moment.who} at {where}; {self.latencies.line(fresh)}",
                err=True,
            )
            self._said, self._before = now, self.frames

    def sum_up(self, outputs: Sequence[Output]) -> None:
        """Say what was done."""
        from simile.camera.live.outputs import Cut

        seconds = max(time.perf_counter() - self._began, 1e-9)
        damaged = f", {self.video.damaged} could not be read" if self.video.damaged else ""
        click.echo(
            f"{self.video.name}: {self.frames} frames in {seconds:.1f} s, {self.frames / seconds:.1f} a second, "
            f"{self.video.dropped} dropped{damaged}, {self.people / max(self.frames, 1):.1f} people in a frame"
        )
        if self.by_operator:
            click.echo(f"the operator acted in {self.by_operator} frames")
        for cut in (output for output in outputs if isinstance(output, Cut)):
            click.echo(f"{cut.name}: {cut.frames} frames" + (f", {cut.dropped} dropped" if cut.dropped else ""))
        if self.frames:
            click.echo(self.latencies.table())
