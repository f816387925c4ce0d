"""A program that behaves like the Codex app server 0.171.0: its messages, its way to a model, its threads on disk.

It knows one tool (`exec_command`) and keeps a thread's items as JSON. `--fault=NAME` makes it misbehave when work begins.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

FAULT = next((word.partition("=")[2] for word in sys.argv if word.startswith("--fault=")), "")
HOME = Path(os.environ["CODEX_HOME"])
TOKEN = os.environ["HERMES_MODEL_TOKEN"]
BASE_URL = next(found[1] for word in sys.argv if (found := re.search(r'base_url="([^"]+)"', word)))
Item = dict[str, Any]


def say(value: Item) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


class Failed(Exception):
    pass


class Program:
    def __init__(self) -> None:
        self.thread = ""
        self.items: list[Item] = []
        self.answers: queue.SimpleQueue[Item] = queue.SimpleQueue()
        self.steers: list[str] = []
        self.interrupted = threading.Event()
        self.turns = 0
        self.running: subprocess.Popen[bytes] | None = None

    def serve(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "method" not in message:
                self.answers.put(message)
            elif "id" in message:
                self.answer(message)

    def answer(self, message: Item) -> None:
        method, params = message["method"], message["params"]
        match method:
            case "initialize":
                result: Item = {"userAgent": "scripted/0", "codexHome": str(HOME)}
            case "thread/start" | "thread/resume":
                if method == "thread/resume" and not self.load(params["threadId"]):
                    say({"id": message["id"], "error": {"code": -32600, "message": "no rollout found"}})
                    return
                if method == "thread/start":
                    self.thread = f"thread-{time.time_ns()}"
                    self.items = [user(params["developerInstructions"] or "", "developer")]
                assert params["approvalPolicy"] == "untrusted"
                result = {"thread": {"id": self.thread}}
            case "turn/start":
                self.turns += 1
                turn = f"turn-{self.turns}"
                say({"id": message["id"], "result": {"turn": {"id": turn, "status": "inProgress", "items": []}}})
                self.items.append(user(params["input"][0]["text"]))
                self.interrupted.clear()
                threading.Thread(target=self.work, args=(turn,), daemon=True).start()
                return
            case "turn/steer":
                if FAULT == "unsteerable":
                    say({"id": message["id"], "error": {"code": -32600, "message": "no active turn to steer"}})
                    return
                self.steers.append(params["input"][0]["text"])
                result = {"turnId": params["expectedTurnId"]}
            case "turn/interrupt":
                self.interrupted.set()
                if self.running is not None:
                    self.running.kill()
                result = {}
            case _:
                say({"id": message["id"], "error": {"code": -32601, "message": "unknown method"}})
                return
        say({"id": message["id"], "result": result})

    def load(self, thread: str) -> bool:
        path = HOME / "threads" / thread
        if not path.exists():
            return False
        self.thread, self.items = thread, json.loads(path.read_text())
        return True

    def save(self) -> None:
        (HOME / "threads").mkdir(exist_ok=True)
        (HOME / "threads" / self.thread).write_text(json.dumps(self.items))

    def tell(self, method: str, turn_id: str, /, **params: object) -> None:
        say({"method": method, "params": {"threadId": self.thread, "turnId": turn_id, **params}})

    def work(self, turn: str) -> None:
        self.save()
        self.tell("turn/started", turn)
        error: Item | None = None
        try:
            self.misbehave(turn)
            while self.round(turn):
                self.save()
        except Failed as failed:
            error = {"message": str(failed)}
        self.save()
        status = "interrupted" if self.interrupted.is_set() else "failed" if error else "completed"
        self.tell("turn/completed", turn, turn={"id": turn, "status": status, "error": error, "items": []})

    def misbehave(self, turn: str) -> None:
        match FAULT:
            case "dies":
                sys.stderr.write("thread panicked: out of luck\n")
                sys.stderr.flush()
                os._exit(101)
            case "rubbish":
                sys.stdout.write("this is no JSON\n")
                sys.stdout.flush()
            case "huge":
                sys.stdout.write("x" * 6_000_000)
                sys.stdout.flush()
            case "silent":
                threading.Event().wait()
            case "asks":
                self.ask("item/permissions/requestApproval", turn, itemId="p1", reason="root, please")
                self.ask("item/tool/requestUserInput", turn, itemId="p2")
            case "crowds":
                for number in range(100):
                    item = {"type": "commandExecution", "id": f"n{number}", "command": "true", "cwd": "/"}
                    self.tell("item/started", turn, item=item)

    def ask(self, method: str, turn: str, **params: object) -> Item:
        say({"id": 7, "method": method, "params": {"threadId": self.thread, "turnId": turn, **params}})
        return self.answers.get()

    def round(self, turn: str) -> bool:
        while self.steers:
            self.items.append(user(self.steers.pop(0)))
        output = self.model()
        self.items += output
        for item in output:
            if item["type"] == "message":
                text = item["content"][0]["text"]
                self.tell("item/completed", turn, item={"type": "agentMessage", "id": item["id"], "text": text})
            elif item["type"] == "function_call":
                result = self.execute(turn, item)
                self.items.append({"type": "function_call_output", "call_id": item["call_id"], "output": result})
        calls = any(item["type"] == "function_call" for item in output)
        return (calls or bool(self.steers)) and not self.interrupted.is_set()

    def execute(self, turn: str, call: Item) -> str:
        command = json.loads(call["arguments"])["cmd"]
        item: Item = {
            "type": "commandExecution", "id": call["call_id"], "command": f"/bin/bash -lc '{command}'",
            "cwd": str(Path.cwd()),
            "status": "inProgress", "aggregatedOutput": None, "exitCode": None,
        }  # fmt: skip
        self.tell("item/started", turn, item=item)
        reply = self.ask(
            "item/commandExecution/requestApproval", turn, itemId=item["id"], command=item["command"], cwd=item["cwd"]
        )
        if reply.get("result", {}).get("decision") != "accept":
            self.tell("item/completed", turn, item={**item, "status": "declined"})
            return "rejected by user"
        self.running = subprocess.Popen(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output = self.running.communicate()[0].decode()
        done = {**item, "status": "completed", "aggregatedOutput": output, "exitCode": self.running.returncode}
        self.tell("item/completed", turn, item=done)
        return f"Process exited with code {self.running.returncode}\nOutput:\n{output}"

    def model(self) -> list[Item]:
        url = urlsplit(BASE_URL)
        connection = http.client.HTTPConnection(url.hostname or "", url.port)
        tool = {"type": "function", "name": "exec_command", "description": "", "parameters": {"type": "object"}}
        body = json.dumps({"model": "m", "stream": True, "input": self.items, "tools": [tool]})
        connection.request("POST", f"{url.path}/responses", body, {"authorization": f"Bearer {TOKEN}"})
        response = connection.getresponse()
        text = response.read().decode()
        if response.status != 200:
            raise Failed(text)
        events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
        assert events[-1]["type"] == "response.completed", events[-1]
        return [event["item"] for event in events if event["type"] == "response.output_item.done"]


def user(text: str, role: str = "user") -> Item:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


Program().serve()
