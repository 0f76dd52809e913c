"""Runs scripts in forked children of a process that has imported torch.

Importing torch takes seconds; a fork takes none of them. The device is not used
before the fork, so a child is as good as a fresh process, and it leaves through
the whole of the interpreter's finalisation. What is about the import itself, or
about the command line, needs a fresh interpreter instead.

One JSON object a line on stdin: code, env, output, errors (paths). Answers: the
child's pid, then its exit status as subprocess.returncode gives it.
"""

from __future__ import annotations

import json
import os
import sys

_pipe = sys.stdin
_request = None

if __name__ == "__main__":
    import torch  # noqa: F401  what the children are spared

    assert hasattr(torch, "tvarant"), "the package is not loaded by torch"
    print("ready", flush=True)
    for _line in _pipe:
        _pid = os.fork()
        if _pid == 0:
            _request = json.loads(_line)
            break
        print(_pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(_pid, 0)[1]), flush=True)

if _request is not None:
    for _number, _path, _flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, _request["output"], os.O_WRONLY | os.O_APPEND),
        (2, _request["errors"], os.O_WRONLY | os.O_APPEND),
    ):
        _fd = os.open(_path, _flags)
        os.dup2(_fd, _number)
        os.close(_fd)
    for _name, _value in _request["env"].items():
        os.environ[_name] = _value
    sys.argv = ["-c"]
    # In the globals of this module: what a script leaves there dies as late as
    # the globals of any main program.
    exec(compile(_request["code"], "<string>", "exec"))
