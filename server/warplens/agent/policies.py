# SPDX-License-Identifier: Apache-2.0
"""The policies of the search by name; all share versions, sources, memory, judge and journal."""

from __future__ import annotations

from typing import Literal

from warplens.agent.greedy import GreedySearch
from warplens.agent.random_search import RandomSearch
from warplens.agent.searcher import Policy
from warplens.agent.tree import SearchTree

PolicyName = Literal["mcts", "greedy", "random"]
POLICIES: dict[PolicyName, type[Policy]] = {
    "mcts": SearchTree,
    "greedy": GreedySearch,
    "random": RandomSearch,
}
