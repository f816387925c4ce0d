"""`down` puts the firewall back, and touches no rule that is somebody else's."""

from __future__ import annotations

from cluster.firewall import removals

BEFORE = """\
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
COMMIT
"""
AFTER = """\
*filter
:INPUT ACCEPT [10:200]
:FORWARD DROP [1:40]
:OUTPUT ACCEPT [5:100]
:DOCKER - [0:0]
:DOCKER-USER - [0:0]
:OTHERS - [0:0]
-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT
-A INPUT -p tcp -m tcp --dport 80 -m comment --comment "by somebody else" -j ACCEPT
-A FORWARD -j DOCKER-USER
-A FORWARD -o br-0123456789ab -m comment --comment "two words" -j ACCEPT
-A DOCKER-USER -j RETURN
COMMIT
*nat
:POSTROUTING ACCEPT [0:0]
:DOCKER - [0:0]
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
-A POSTROUTING -s 10.9.0.0/16 -o eth0 -j MASQUERADE
COMMIT
"""


def test_rules_go_first_then_chains_and_the_policy_comes_back() -> None:
    assert removals(BEFORE, AFTER) == [
        ["-t", "filter", "-P", "FORWARD", "ACCEPT"],
        ["-t", "filter", "-D", "FORWARD", "-j", "DOCKER-USER"],
        [
            "-t",
            "filter",
            "-D",
            "FORWARD",
            "-o",
            "br-0123456789ab",
            "-m",
            "comment",
            "--comment",
            "two words",
            "-j",
            "ACCEPT",
        ],
        ["-t", "filter", "-D", "DOCKER-USER", "-j", "RETURN"],
        ["-t", "nat", "-D", "POSTROUTING", "-s", "172.17.0.0/16", "!", "-o", "docker0", "-j", "MASQUERADE"],
        ["-t", "filter", "-X", "DOCKER"],
        ["-t", "filter", "-X", "DOCKER-USER"],
        ["-t", "nat", "-X", "DOCKER"],
    ]


def test_nothing_is_removed_when_nothing_changed() -> None:
    assert removals(AFTER, AFTER) == []


def test_docker_rules_that_were_there_before_stay() -> None:
    dropping = BEFORE.replace(":FORWARD ACCEPT", ":DOCKER - [0:0]\n:FORWARD DROP")
    words = removals(dropping, AFTER)
    assert ["-t", "filter", "-X", "DOCKER"] not in words
    assert not any("-P" in line for line in words)
