"""Play a game of two teams, step by step; let detections lapse and an operator's hand follow an aim.

Nothing here draws: all that is left to chance comes in as arrays, so the same arrays give the same game. What a
step may change is a record (`SITUATION`) and the arrays of the players; `way` is 1 where the attack goes to +x. Of
n players a side, 0 to n - 1 are team 0 and the others team 1; player i marks, and is marked by, (i + n) % 2n.
"""

from __future__ import annotations

import math
from collections import namedtuple
from functools import partial

import numpy as np

from simile.models.kernels.compiling import inner, kernel

LUCK = 5  # uniform numbers that a step may use for what happens; behind them one per player for how late he is

# What the ball is doing.
ADVANCE, SET, DRIVE, PASS, SHOT, LOOSE, DEAD = range(7)

SITUATION = np.dtype(
    [
        ("phase", np.int64),
        ("team", np.int64),  # that has the ball, or will restart the game
        ("holder", np.int64),  # a player, or -1 while the ball is free
        ("receiver", np.int64),  # whom a pass will reach
        ("way", np.float64),  # of the attack
        ("fast", np.float64),  # 1 in a fast break
        ("clock", np.float64),  # seconds in possession
        ("left", np.float64),  # seconds until a drive or a pause ends
        ("x", np.float64),  # the ball
        ("y", np.float64),
        ("to_x", np.float64),  # where a free ball is going
        ("to_y", np.float64),
    ]
)

# What the kernel needs of `simile.camera.simulation.plays.Play`, and of the court; the fields are explained there.
Rules = namedtuple(
    "Rules",
    "side length width goal walk jog sprint acceleration wander spacing walk_up set_depth ahead behind line sag close "
    "passes passes_up intercepted cuts drives drive_seconds drive_shots shots shot_clock range made rebounds bounce "
    "breaks losses losses_up stops kept pause_least pause_most restart restart_at pass_speed shot_speed lateness "
    "block_attack block_defence shift",
)

GAIN, SETTLE = 2.0, 0.35  # per second, seconds: how hard a player makes for his target, how fast he changes his mind
WANDER_SECONDS = 2.0  # a player's wandering about his target forgets itself in so many seconds
REACH = 1.0  # a player gets a ball within a metre (squared)
MARGIN = 0.5  # metres that a player may want to leave the court


@inner
def nearest(where, x, y, begin, end):
    """Return which of the players begin to end, at `where` (n, 2), is nearest to a point, and the squared distance."""
    best, least = begin, np.inf
    for i in range(begin, end):
        far = (where[i, 0] - x) ** 2 + (where[i, 1] - y) ** 2
        if far < least:
            best, least = i, far
    return best, least


@inner
def line_up(team, sets, spots, luck):
    """Give a team the places of a set play: `sets` (k, n, 2) metres in front of the goal and across."""
    begin, chosen = team * sets.shape[1], np.intp(luck[4] * len(sets))
    for i in range(
        sets.shape[1]
    ):  # number by number: numba takes seconds to compile what it would say of unequal shapes
        spots[begin + i, 0], spots[begin + i, 1] = sets[chosen, i, 0], sets[chosen, i, 1]


@inner
def settle(now, rules):
    """Tell an attack in place from one on its way, by where the ball is."""
    far = rules.goal - now["way"] * now["x"]
    now["phase"] = SET if far < rules.set_depth and now["fast"] == 0.0 else ADVANCE


@inner
def turn_over(now, team, fast, rules, sets, spots, asleep, luck):
    """Give the ball to a team; every player takes a moment to notice."""
    if team != now["team"]:
        now["way"] = -now["way"]
        for i in range(2 * rules.side):
            asleep[i] = rules.lateness * 2.0 * luck[LUCK + i]
    now["team"] = team
    now["fast"] = fast
    now["clock"] = 0.0
    line_up(team, sets, spots, luck)


@inner
def catch(now, player, rules, sets, spots, asleep, luck):
    """Let a player take the ball; of the other team, he may start a fast break."""
    team = player // rules.side
    if team != now["team"]:
        turn_over(now, team, 1.0 if luck[2] < rules.breaks else 0.0, rules, sets, spots, asleep, luck)
    now["holder"] = player
    now["receiver"] = -1
    settle(now, rules)


@inner
def marker(i, where, rules):
    """Return who marks a player: his man, or whoever of the others is nearest in a game of blocks."""
    if rules.block_defence == 0.0:
        return (i + rules.side) % (2 * rules.side)
    begin = (1 - i // rules.side) * rules.side
    return nearest(where, where[i, 0], where[i, 1], begin, begin + rules.side)[0]


@inner
def mate_of(now, chance, rules):
    """Return one of the other players in the team of the one with the ball."""
    begin = now["team"] * rules.side
    return begin + (now["holder"] - begin + 1 + int(chance * (rules.side - 1))) % rules.side


@inner
def effort(now, where, mate):
    """Return how far a pass to a player is, less so one to the front."""
    dx, dy = where[mate, 0] - now["x"], where[mate, 1] - now["y"]
    return math.sqrt(dx * dx + dy * dy) - 1.5 * now["way"] * dx


@inner
def throw(now, where, rules, luck):
    """Pass to a team mate at random; it may be his marker who gets the ball."""
    mate = mate_of(now, luck[1], rules)
    if rules.block_defence > 0.0:  # the nearer one of two, or who is farther ahead: few passes cross the whole field
        other = mate_of(now, luck[3], rules)
        if effort(now, where, other) < effort(now, where, mate):
            mate = other
    now["receiver"] = marker(mate, where, rules) if luck[2] < rules.intercepted else mate
    now["holder"] = -1
    now["phase"] = PASS


@inner
def shoot(now, rules):
    """Send the ball to the goal."""
    now["holder"] = -1
    now["phase"] = SHOT
    now["to_x"], now["to_y"] = now["way"] * rules.goal, 0.0


@inner
def halt(now, team, seconds, x, y, rules, sets, spots, asleep, luck):
    """Stop the game; a team will restart it at a point."""
    turn_over(now, team, 0.0, rules, sets, spots, asleep, luck)
    now["phase"], now["holder"], now["receiver"] = DEAD, -1, -1
    now["left"] = seconds
    now["to_x"], now["to_y"] = x, y


@inner
def fly(now, x, y, speed, step):
    """Move a free ball towards a point; tells whether it is there."""
    dx, dy = x - now["x"], y - now["y"]
    far = math.sqrt(dx * dx + dy * dy)
    if far <= speed * step:
        now["x"], now["y"] = x, y
        return True
    now["x"] += dx / far * speed * step
    now["y"] += dy / far * speed * step
    return False


@inner
def play_on(now, where, rules, step, sets, spots, asleep, luck):
    """Let the one with the ball do something, at random: pass, cut, drive, shoot, lose it, or be stopped."""
    u, in_set = luck[0], now["phase"] == SET
    pause = rules.pause_least + (rules.pause_most - rules.pause_least) * luck[1] * luck[1]
    far = rules.goal - now["way"] * now["x"]
    if now["phase"] == DRIVE:
        now["left"] -= step
        if far < rules.close + 1.0 or now["left"] <= 0.0:
            if luck[3] < rules.drive_shots:
                shoot(now, rules)
            else:
                throw(now, where, rules, luck)
        return
    if now["fast"] > 0.0 and far < rules.range:
        shoot(now, rules)
        return
    if not in_set and now["fast"] == 0.0 and far < rules.set_depth:
        now["phase"] = SET
        return
    if now["clock"] > rules.shot_clock:
        shoot(now, rules)
        return
    edge = (rules.passes if in_set else rules.passes_up * (1.0 - now["fast"])) * step
    if u < edge:
        throw(now, where, rules, luck)
        return
    edge += (rules.losses if in_set else rules.losses_up) * step
    if u < edge:  # the ball gets away, to the marker
        now["receiver"], now["holder"], now["phase"] = marker(now["holder"], where, rules), -1, PASS
        return
    edge += rules.stops * step
    if u < edge:  # a foul, or out of play: it goes on from the nearer side line
        team = now["team"] if luck[2] < rules.kept else 1 - now["team"]
        side = rules.width / 2.0 if now["y"] > 0.0 else -rules.width / 2.0
        halt(now, team, pause, now["x"], side, rules, sets, spots, asleep, luck)
        return
    if not in_set:
        return
    edge += rules.cuts * step
    if u < edge:  # two attackers change places, through the defence
        kept = 1 if rules.block_defence > 0.0 else 0  # a goalkeeper stays where he is
        begin, free = now["team"] * rules.side + kept, rules.side - kept
        a, b = begin + int(luck[1] * free), begin + int(luck[2] * free)
        for axis in range(2):
            spots[a, axis], spots[b, axis] = spots[b, axis], spots[a, axis]
        return
    edge += rules.drives * step
    if u < edge:
        now["phase"], now["left"] = DRIVE, rules.drive_seconds
        return
    edge += rules.shots * step
    if u < edge:
        shoot(now, rules)


@inner
def free_ball(now, where, rules, step, sets, spots, asleep, luck):
    """Move a ball that nobody holds: passed, shot, bounced off, or out of play."""
    phase = now["phase"]
    if phase == PASS:
        taker = now["receiver"]
        if fly(now, where[taker, 0], where[taker, 1], rules.pass_speed, step):
            catch(now, taker, rules, sets, spots, asleep, luck)
    elif phase == SHOT:
        if not fly(now, now["to_x"], now["to_y"], rules.shot_speed, step):
            return
        if luck[0] < rules.made:
            x = now["way"] * rules.length / 2.0 * rules.restart_at
            seconds = rules.restart * (0.7 + 0.6 * luck[1])
            halt(now, 1 - now["team"], seconds, x, 0.0, rules, sets, spots, asleep, luck)
        elif luck[1] < rules.rebounds:
            now["phase"] = LOOSE
            now["to_x"] = now["way"] * (rules.goal - rules.bounce * luck[2])
            now["to_y"] = rules.bounce * (2.0 * luck[3] - 1.0)
        else:  # behind the line
            seconds = rules.restart * (0.7 + 0.6 * luck[2])
            halt(now, 1 - now["team"], seconds, now["x"], now["y"], rules, sets, spots, asleep, luck)
    elif phase == LOOSE:
        fly(now, now["to_x"], now["to_y"], 0.5 * rules.shot_speed, step)
        player, far = nearest(where, now["x"], now["y"], 0, 2 * rules.side)
        if far < REACH:
            now["clock"], now["fast"] = 0.0, 0.0  # a second chance, unless it is the other team's first
            catch(now, player, rules, sets, spots, asleep, luck)
    else:
        fly(now, now["to_x"], now["to_y"], 2.0 * rules.walk, step)
        now["left"] -= step
        player, far = nearest(where, now["x"], now["y"], now["team"] * rules.side, (now["team"] + 1) * rules.side)
        if now["left"] <= 0.0 and far < REACH:
            catch(now, player, rules, sets, spots, asleep, luck)


@inner
def attack(now, i, spots, rules, target):
    """Write where attacker i wants to be to target (2,); returns how fast he goes there."""
    way, phase, holds = now["way"], now["phase"], now["holder"] == i
    ball = way * now["x"]
    # Off the ball: one's place in the set play, but neither too far before nor behind the ball.
    ahead = min(rules.goal - spots[i, 0], ball + rules.ahead)
    target[0] = way * max(ahead, min(ball - rules.behind, rules.goal - spots[i, 0]))
    target[1] = spots[i, 1]
    if phase == DEAD:
        return rules.walk if now["left"] > 2.0 else rules.jog
    if phase == DRIVE and holds:
        target[0], target[1] = way * rules.goal, 0.0
        return rules.sprint
    if now["fast"] > 0.0:
        if holds:
            target[0], target[1] = way * rules.goal, 0.5 * spots[i, 1]
        return rules.sprint
    if phase == ADVANCE and holds:
        target[0], target[1] = way * (rules.goal - 0.7 * rules.set_depth), 0.5 * spots[i, 1]
        return rules.walk_up
    return rules.jog


@inner
def defend(now, i, where, rules, target):
    """Write where defender i wants to be to target (2,), between his man and the goal; returns how fast he goes."""
    way = now["way"]
    man = (i + rules.side) % (2 * rules.side)
    gap_x, gap_y = way * rules.goal - where[man, 0], -where[man, 1]
    far = math.sqrt(gap_x * gap_x + gap_y * gap_y) + 1e-9
    share = min(rules.close / far, 1.0) if man == now["holder"] else rules.sag
    x, y = where[man, 0] + share * gap_x, where[man, 1] + share * gap_y
    # Nobody is picked up far from the goal: the defence waits behind its line.
    target[0] = way * max(way * x, rules.goal - rules.line)
    target[1] = y
    if now["phase"] == DEAD:
        return rules.walk if now["left"] > 2.0 else rules.jog
    back = way * (target[0] - where[i, 0])
    return rules.sprint if now["fast"] > 0.0 or back > rules.sag * rules.line else 1.15 * rules.jog


@inner
def hold_block(now, i, where, spots, rules, target):
    """Write where player i wants to be to target (2,), in a team that moves as a block; returns how fast he goes.

    The places of a formation are those of a team whose ball is at the other goal line. The nearer the ball to one's own
    goal, the nearer to that are all, and the more so without the ball; all shift to the side where the ball is.
    """
    attacks = i // rules.side == now["team"]
    way = now["way"] if attacks else -now["way"]
    least = rules.block_attack if attacks else rules.block_defence
    ball = 0.5 + way * now["x"] / rules.length  # from 0, at the own goal line, to 1
    deep = rules.length - spots[i, 0]
    shift = rules.shift * min(1.0, 3.0 * deep / rules.length)  # a goalkeeper hardly
    target[0] = way * (deep * (least + (1.0 - least) * ball) - rules.length / 2.0)
    target[1] = (1.0 - shift if attacks else 1.0 - 1.5 * shift) * spots[i, 1] + 1.5 * shift * now["y"]
    if now["phase"] == DEAD:
        return rules.walk if now["left"] > 2.0 else rules.jog
    if attacks and now["fast"] > 0.0 and deep > 0.6 * rules.length:
        return rules.sprint
    # Who is far from his place hurries; who is there strolls.
    far = math.sqrt((target[0] - where[i, 0]) ** 2 + (target[1] - where[i, 1]) ** 2)
    return rules.jog if far < 0.15 * rules.length else rules.sprint


@inner
def press(now, where, rules, targets, pace):
    """Send the nearest defender before the one with the ball, between him and the goal."""
    begin = (1 - now["team"]) * rules.side
    i, far = nearest(where, now["x"], now["y"], begin + 1, begin + rules.side)
    if now["holder"] >= 0 and far < (0.3 * rules.length) ** 2:
        gap_x, gap_y = now["way"] * rules.goal - now["x"], -now["y"]
        share = min(1.0, rules.close / (math.sqrt(gap_x * gap_x + gap_y * gap_y) + 1e-9))
        targets[i, 0], targets[i, 1] = now["x"] + share * gap_x, now["y"] + share * gap_y
        pace[i] = 1.3 * rules.jog


@inner
def intend(now, where, wander, spots, asleep, rules, step, targets, pace):
    """Write to targets (2n, 2) and pace (2n,) where all players want to be and how fast; who is late keeps his old."""
    blocks = rules.block_defence > 0.0
    for i in range(2 * rules.side):
        asleep[i] -= step
        if asleep[i] > 0.0:
            continue
        attacks = i // rules.side == now["team"]
        if blocks and (now["holder"] != i or i % rules.side == 0):
            pace[i] = hold_block(now, i, where, spots, rules, targets[i])
        elif attacks:
            pace[i] = attack(now, i, spots, rules, targets[i])
        else:
            pace[i] = defend(now, i, where, rules, targets[i])
    if blocks:
        press(now, where, rules, targets, pace)
    # A ball that lies free is fetched, by the nearest of each team, or of the team that restarts the game.
    for team in range(2):
        if now["phase"] == LOOSE or (now["phase"] == DEAD and team == now["team"]):
            i, _ = nearest(where, now["to_x"], now["to_y"], team * rules.side, (team + 1) * rules.side)
            targets[i, 0], targets[i, 1] = now["to_x"] - wander[i, 0], now["to_y"] - wander[i, 1]  # straight there
            pace[i] = rules.sprint if now["phase"] == LOOSE else rules.jog


@inner
def inside(value, extent):
    """Move a coordinate to the court."""
    edge = extent / 2.0 + MARGIN
    return min(max(value, -edge), edge)


@inner
def run(where, speed, targets, pace, legs, wander, noise, rules, step):
    """Move all players a step: second order, with limits of speed and acceleration, and not into one another."""
    forget = step / WANDER_SECONDS
    shake = rules.wander * math.sqrt(2.0 * forget)
    for i in range(2 * rules.side):
        most = pace[i] * legs[i]
        for axis in range(2):
            wander[i, axis] += shake * noise[i, axis] - forget * wander[i, axis]
        gap_x = inside(targets[i, 0] + wander[i, 0], rules.length) - where[i, 0]
        gap_y = inside(targets[i, 1] + wander[i, 1], rules.width) - where[i, 1]
        far = math.sqrt(gap_x * gap_x + gap_y * gap_y) + 1e-9
        # Slow enough to stop at the target, with a quarter of the strength to spare.
        pull = min(GAIN, min(most, math.sqrt(1.5 * rules.acceleration * far)) / far)
        want_x, want_y = pull * gap_x, pull * gap_y
        for j in range(2 * rules.side):
            if j != i:
                dx, dy = where[i, 0] - where[j, 0], where[i, 1] - where[j, 1]
                apart = math.sqrt(dx * dx + dy * dy) + 1e-9
                if apart < rules.spacing:
                    push = 2.0 * (rules.spacing - apart) / apart
                    want_x += push * dx
                    want_y += push * dy
        force_x, force_y = (want_x - speed[i, 0]) / SETTLE, (want_y - speed[i, 1]) / SETTLE
        force = math.sqrt(force_x * force_x + force_y * force_y) + 1e-9
        cap = min(1.0, rules.acceleration / force)
        speed[i, 0] += cap * force_x * step
        speed[i, 1] += cap * force_y * step
        pace_now = math.sqrt(speed[i, 0] ** 2 + speed[i, 1] ** 2) + 1e-9
        cap = min(1.0, rules.sprint * legs[i] / pace_now)
        for axis in range(2):
            speed[i, axis] *= cap
    for i in range(2 * rules.side):
        for axis in range(2):
            where[i, axis] += speed[i, axis] * step


@partial(kernel, makes_arrays=True)
def play(rules, sets, way, where, legs, noise, luck, step, players, ball, possession, flow):
    """Play a game from a tip-off in the middle, with the players at `where` (2n, 2), which is moved.

    Parameters
    ----------
    rules, sets : Rules, (k, n, 2) array
        Of the sport.
    way : float
        1 where team 0 attacks to +x, else -1.
    legs : (2n,) array
        How fast each player is, about 1.
    noise, luck : (T, 2n, 2) and (T, LUCK + 2n) arrays
        Standard normal and uniform numbers.
    step : float
        Seconds.
    players, ball, possession, flow
        Receive the positions (T, 2n, 2) and (T, 2), the team with the ball (T,), -1 for none, and the direction of
        the attack and whether it is a fast break (T, 2).
    """
    now = np.zeros(1, SITUATION)[0]
    now["phase"], now["holder"], now["receiver"] = DEAD, -1, -1
    both = 2 * rules.side
    speed, wander, targets = np.zeros((both, 2)), np.zeros((both, 2)), where.copy()
    spots, pace, asleep = np.zeros((both, 2)), np.zeros(both), np.zeros(both)
    now["team"] = 0 if luck[0, 0] < 0.5 else 1
    now["way"] = way if now["team"] == 0 else -way
    line_up(0, sets, spots, luck[0])
    line_up(1, sets, spots, luck[0])
    for t in range(len(players)):
        now["clock"] += step
        holder = now["holder"]
        if holder >= 0:
            play_on(now, where, rules, step, sets, spots, asleep, luck[t])
        else:
            free_ball(now, where, rules, step, sets, spots, asleep, luck[t])
        intend(now, where, wander, spots, asleep, rules, step, targets, pace)
        run(where, speed, targets, pace, legs, wander, noise[t], rules, step)
        if holder >= 0 and holder == now["holder"]:  # the ball goes with him, and has not far to go to his hand
            fly(now, where[holder, 0], where[holder, 1], rules.pass_speed, step)
        for i in range(2 * rules.side):
            players[t, i, 0], players[t, i, 1] = where[i, 0], where[i, 1]
        ball[t, 0], ball[t, 1] = now["x"], now["y"]
        possession[t] = -1 if now["phase"] >= LOOSE else now["team"]
        flow[t, 0], flow[t, 1] = now["way"], now["fast"]


@kernel
def lapse(begin, end, chance, out):
    """Write a two-state chain per column to out (T, n): it turns on with probability begin (T, n), off with `end`.

    `chance` (T + 1, n) are uniform numbers; the first row says who is on at the start, by the share of time.
    """
    for i in range(out.shape[1]):
        on = chance[0, i] * (begin[0, i] + end) < begin[0, i]
        for t in range(out.shape[0]):
            on = chance[t + 1, i] >= end if on else chance[t + 1, i] < begin[t, i]
            out[t, i] = on


@kernel
def follow(aims, damping, stiffness, zone, rest, fastest, strongest, step, out):
    """Follow aims (T, k) with a hand, into out (T, k): still inside a dead zone, else a damped spring with limits.

    Parameters
    ----------
    damping : (T,) array
        Share of the critical damping.
    stiffness, zone, rest, fastest, strongest : (k,) arrays
        Of each axis: natural frequency in radians per second; how far the aim must leave the one that is held
        before the hand starts; how slow an aim must be for the hand to rest; limits of speed and acceleration.
    """
    calm_seconds = 0.4  # that an aim must be slow for
    for j in range(aims.shape[1]):
        held, smooth, at, speed = aims[0, j], aims[0, j], aims[0, j], 0.0
        moving, calm = False, 0.0
        omega = stiffness[j]
        blend = min(1.0, 2.0 * omega * step)  # a first, faster lag: no hand starts with a jerk
        for t in range(len(aims)):
            aim = aims[t, j]
            if moving:
                drift = abs(aim - held) / step
                calm = calm + step if drift < rest[j] else 0.0
                held = aim
                moving = calm < calm_seconds
            elif abs(aim - held) > zone[j]:
                moving, calm, held = True, 0.0, aim
            smooth += blend * (held - smooth)
            force = omega * omega * (smooth - at) - 2.0 * damping[t] * omega * speed
            force = min(max(force, -strongest[j]), strongest[j])
            speed = min(max(speed + force * step, -fastest[j]), fastest[j])
            at += speed * step
            out[t, j] = at
