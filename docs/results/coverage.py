#!/usr/bin/env python3
"""How often 95 % intervals over a few tasks with three seeds each hold the true effect: a bootstrap over tasks and seeds, and
Student's t over the tasks' means. Effects of tasks and seeds are normal; the first ratio is seeds' spread over tasks' spread.
The second table is of 12 tasks of which three have the same texts and two others too, as in Table 2: effects of such tasks are correlated."""
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

print("correlation  t")
for correlation in (0.0, 0.5, 0.9):
    hits, rounds = 0, 10000
    for _ in range(rounds):
        effects = []
        for group in (3, 2) + (1,) * 7:
            shared = random.gauss(0, correlation**0.5)
            effects += [shared + random.gauss(0, (1 - correlation) ** 0.5) for _ in range(group)]
        means = [st.fmean(random.gauss(effect, 0.3) for _ in range(3)) for effect in effects]
        hits += abs(st.mean(means)) <= T[12] * st.stdev(means) / 12**0.5
    print(f"{correlation:11}  {100 * hits / rounds:.1f}")
