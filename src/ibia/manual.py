"""What ``--help`` says beyond the options: descriptions, examples, environment, exit codes.

Text only. A line of ``\\b`` keeps the paragraph after it as it stands; others are wrapped to the terminal.
"""

from __future__ import annotations

__all__ = ["ABOUT", "COMMON", "CONVERT", "DEMO", "INFER", "INFO"]

ABOUT = """\
Marginals and partition functions of discrete graphical models: Bayesian networks, Markov random fields, factor graphs;
also of those that are too big for exact methods.

You say how large a table may become, or how much time and memory there is. The answer is exact if the model fits, and
otherwise approximate, with an estimate of its own error.
"""

COMMON = """\
\b
Examples:
  ibia demo                                    see it work
  ibia info model.bif                          how hard is this model?
  ibia infer model.bif -E smoke=yes            marginals, given an observation
  ibia infer model.uai --time-limit 60         the best answer within a minute
  ibia infer model.uai --bound 15 --out model.MAR --quiet
  ibia convert model.bif model.uai.xz

\b
Exit codes:
  0    there is an answer
  1    bad input: a file, the evidence, a choice that there is not
  2    a command line that cannot be understood
  3    out of memory
  4    a defect of ibia
  5    out of time before there was an answer
  130  interrupted before there was an answer
  143  terminated before there was an answer
What went wrong is one sentence on standard error.

\b
Environment:
  INF_TIME, UAI_TIME          limit of time in seconds
  INF_MEMORY, UAI_MEMORY      limit of memory in gigabytes
  IBIA_DATA                   folder of models for ibia bench
  IBIA_TRACEBACK              if set, a defect shows where it happened
  NO_COLOR                    if set, terminals get no colours either
  NUMBA_CACHE_DIR, XDG_CACHE_HOME
                              where compiled code is kept

\b
Completion of commands, options and file names (bash, zsh, fish, PowerShell):
  ibia --install-completion   for the shell it is called from
  ibia --show-completion      shows what that would add

ibia-uai is the same solver as the UAI competitions call it.
"""

INFER = """\
\b
Examples:
  ibia infer model.bif -E smoke=yes -E fever=0.2,0.8 --show flu,cold
  ibia infer model.uai --evidence model.uai.evid --time-limit 60
  ibia infer model.uai --bound 15 --out model.MAR --pr model.PR --quiet
  ibia infer model.uai --time-limit 600 --memory-limit 8GB --json all.json
  ibia infer model.uai --bound 20 --update links --loss mi --reduce 5

The last one is the method as published. Interrupted (Ctrl-C) or terminated, the best answer so far is shown and
written. Colours and progress are for terminals only; a pipe gets plain text.

\b
Environment:
  INF_TIME, UAI_TIME          limit of time in seconds, without --time-limit
  INF_MEMORY, UAI_MEMORY      limit of memory in gigabytes, without
                              --memory-limit

Exit codes: 0 with an answer, 1 bad input, 2 wrong usage, 3 out of memory, 4 a defect, 5 out of time, 130 interrupted,
143 terminated.
"""

INFO = """\
\b
Examples:
  ibia info model.bif
  ibia info model.uai --evidence model.uai.evid --json size.json

Exit codes: 0 with an answer, 1 bad input, 2 wrong usage.
"""

CONVERT = """\
\b
Examples:
  ibia convert model.bif model.uai
  ibia convert model.xdsl model.bif.gz

Exit codes: 0 if the file is written, 1 bad input, 2 wrong usage.
"""

DEMO = """\
A patient has some symptoms and not others: which diseases are the cause? Answered with tables of 256 numbers and, to
compare, exactly.
"""
