#!/usr/bin/env python3
"""How often 95 % intervals over a few tasks with three seeds each hold the true effect: a bootstrap over tasks and seeds, and
Student's t over the tasks' means. Effects of tasks and seeds are normal; the first ratio is seeds' spread over tasks' spread.
The second table is of tasks some of which have the same texts, so that their effects are correlated: the ten of Table 2's verdict (two
label the same tweets), and all twelve that are here (three label the same posts too)."""
import random
import statistics as st

T = {5: 2.776, 8: 2.365, 10: 2.262, 12: 2.201}
random.seed(0)
print("tasks  ratio  bootstrap  t")
for tasks, t in T.items():
    for ratio in (0.3, 1.0):
        hits, rounds = [0, 0], 1000
        for _ in range(rounds):
            effects = [random.gauss(0, 1) for _ in range(tasks)]
            values = [[random.gauss(effect, ratio) for _ in range(3)] for effect in effects]
            means = [st.mean(seeds) for seeds in values]
            drawn = sorted(
                st.fmean(st.fmean(random.choices(random.choice(values), k=3)) for _ in range(tasks)) for _ in range(300)
            )
            half = t * st.stdev(means) / tasks**0.5
            hits[0] += drawn[7] <= 0 <= drawn[292]
            hits[1] += abs(st.mean(means)) <= half
        print(f"{tasks:5}  {ratio:5}  {100 * hits[0] / rounds:8.1f}  {100 * hits[1] / rounds:.1f}")

random.seed(0)
print("tasks  correlation  t")
for groups in ((2,) + (1,) * 8, (3, 2) + (1,) * 7):
    tasks = sum(groups)
    for correlation in (0.0, 0.5, 0.9):
        hits, rounds = 0, 10000
        for _ in range(rounds):
            effects = []
            for group in groups:
                shared = random.gauss(0, correlation**0.5)
                effects += [shared + random.gauss(0, (1 - correlation) ** 0.5) for _ in range(group)]
            means = [st.fmean(random.gauss(effect, 0.3) for _ in range(3)) for effect in effects]
            hits += abs(st.mean(means)) <= T[tasks] * st.stdev(means) / tasks**0.5
        print(f"{tasks:5}  {correlation:11}  {100 * hits / rounds:.1f}")
