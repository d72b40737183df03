"""Files of settings for tests of what is wrong in them."""

_X9 = ",".join(["x"] * 9)
BOMB = f"a: &a [{_X9}]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(12)
)
CONFIG = """\
float:
  any:
  - name: exact
    module: ann_benchmarks.algorithms.bruteforce
    constructor: ExactScan
    docker_tag: ann-benchmarks-bruteforce
    base_args: ['@metric']
    disabled: false
    run_groups:
      all:
        args: []
        query_args: [[1, 2]]
        rows: [1, 1000]
        datasets: [tiny]
    more_run_groups:
      more:
        arg_groups: [{M: 8}]
        query_arg_groups: [{ef: [1, 2]}]
"""
EXPERIMENT = """\
title: A
source: B
text: C
steps:
- name: one
  title: One
  text: D
  run:
    algorithm: exact
    dataset: tiny
    runs: 1
    clients: [1]
  groups:
    exact:
      g:
        args: []
  settings:
    work_mem: 4MB
  install:
  - algorithm: exact
    build-arg: [A=B]
  pictures:
  - kind: frontier
    x: k-nn
    raw: false
    published: 5m
    where: {clients: 1}
  tables:
  - kind: points
    recall: 0.9
    title: T
    algorithms: [exact]
    of: {clients: 1}
  mini:
    run:
      runs: 2
findings:
- says: E
  published: twice
  compare: ratio
  metric: qps
  to-metric: qps
  at-recall: 0.5
  of:
    step: one
    clients: [1]
  to:
    step: one
  over: tier
  least: 1
  most: 2
  unit: s
  mini:
    least: 2
"""
