"""What all fakes share: the scope of a test, its script, its journal, its prompt cache, ids and token counts."""

import base64
import dataclasses
import hashlib
import hmac
import json
import threading

# A fake of a vendor has no secrets; a constant makes every run the same.
KEY = b"strict fake"
JOURNAL_LIMIT = 10_000
IMAGE_TOKENS = 1000
BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# Values of these keys are data, whose length says nothing of its tokens.
DATA_KEYS = {"data", "image_url", "file_data", "images", "url"}


class Refused(Exception):
    """A request that the vendor would refuse, with the vendor's own status and body."""

    def __init__(self, status, body, headers=None, stream=None):
        super().__init__(json.dumps(body))
        self.status, self.body, self.headers, self.stream = status, body, headers or {}, stream


@dataclasses.dataclass
class Request:
    path: str
    endpoint: str
    # Which server is played where several speak one wire.
    personality: str
    query: dict
    headers: dict
    body: object
    model: str = ""
    warnings: list = dataclasses.field(default_factory=list)

    def warn(self, text):
        """Something that the vendor takes, but that loses quality or money."""
        self.warnings.append(text)


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def digest(*values):
    return hashlib.sha256("\0".join(value if isinstance(value, str) else compact(value) for value in values).encode()).hexdigest()


def token_count(value, key=""):
    """A rough count: four bytes a token, a fixed number for an image or a document."""
    if isinstance(value, str):
        is_data = key in DATA_KEYS and (len(value) > 256 or value.startswith("data:"))
        return IMAGE_TOKENS if is_data else (len(value.encode()) + 3) // 4
    if isinstance(value, dict):
        return sum(1 + token_count(item, name) for name, item in value.items())
    if isinstance(value, list):
        return sum(token_count(item, key) for item in value)
    return 1


def without(value, *keys):
    """`value` without these keys, at every level."""
    if isinstance(value, dict):
        return {name: without(item, *keys) for name, item in value.items() if name not in keys}
    if isinstance(value, list):
        return [without(item, *keys) for item in value]
    return value


def seal(**content):
    """A string that only this fake can make: what it says, and a code over it."""
    text = compact(content).encode()
    return base64.b64encode(hmac.new(KEY, text, hashlib.sha256).digest()[:16] + text).decode()


def unseal(sealed):
    """What a sealed string says, or nothing for one that this fake did not make."""
    try:
        raw = base64.b64decode(sealed, validate=True)
    except ValueError:
        return None
    code, text = raw[:16], raw[16:]
    if not hmac.compare_digest(code, hmac.new(KEY, text, hashlib.sha256).digest()[:16]):
        return None
    return json.loads(text)


class Scope:
    """The world of one test: the path prefix `/s/NAME` selects it."""

    def __init__(self):
        self.lock = threading.RLock()
        self.reset()

    def reset(self):
        self.scripts, self.journal, self.prefixes, self.entries = {}, [], {}, {}
        self.issued, self.count = {}, 0
        self.settings = {"steps": 3, "windows": {}, "max_output": {}}

    def set(self, given):
        with self.lock:
            for key, value in given.items():
                if isinstance(self.settings.get(key), dict):
                    self.settings[key].update(value)
                else:
                    self.settings[key] = value

    def script(self, vendor, model, steps):
        with self.lock:
            self.scripts[vendor, model] = [steps, 0]

    def next_step(self, vendor, model):
        """The pieces of the next answer; nothing without a script. The last step repeats."""
        with self.lock:
            script = self.scripts.get((vendor, model)) or self.scripts.get((vendor, "*"))
            if not script or not script[0]:
                return None
            step = script[0][min(script[1], len(script[0]) - 1)]
            script[1] += 1
            return step

    def window(self, model, default):
        return self.settings["windows"].get(model, default)

    def max_output(self, model, default):
        return self.settings["max_output"].get(model, default)

    def new_id(self, prefix, length=24, alphabet=BASE62):
        with self.lock:
            self.count += 1
            number = int(hashlib.sha256(f"{prefix}{self.count}".encode()).hexdigest(), 16)
        letters = []
        for _ in range(length):
            number, rest = divmod(number, len(alphabet))
            letters.append(alphabet[rest])
        return prefix + "".join(letters)

    def note(self, vendor, request, raw=b"", error=None, status=200):
        secret = ("authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie")
        entry = {
            "vendor": vendor,
            "path": request.path,
            "personality": request.personality,
            "model": request.model,
            "ok": error is None,
            "status": status,
            "warnings": request.warnings,
            "headers": {name: value for name, value in request.headers.items() if name not in secret},
            "body": request.body,
            "prompt": prompt(raw),
        }
        if error is not None:
            entry["error"] = error
        with self.lock:
            self.journal.append(entry)
            del self.journal[:-JOURNAL_LIMIT]
        return entry

    def cached_prefix(self, cache, text, minimum, step, total):
        """How many of the `total` tokens of `text` an earlier text of the same cache begins with. Keeps `text` for later ones."""
        data = text.encode()
        with self.lock:
            earlier = self.prefixes.setdefault(cache, [])
            longest = max((common_prefix(data, each) for each in earlier), default=0)
            earlier.append(data)
            del earlier[:-64]
        tokens = total * longest // max(len(data), 1) // step * step
        return tokens if tokens >= minimum else 0


    def marked_prefix(self, cache, texts, marks, minimum, total):
        """The same for a cache that keeps only what ends with one of `marks`, places in `texts`, and that finds only what
        an earlier text has marked."""
        text = "".join(texts)
        with self.lock:
            earlier = self.prefixes.setdefault(cache, set())
            longest = max((len(each) for each in earlier if text.startswith(each)), default=0) if marks else 0
            earlier.update("".join(texts[: mark + 1]) for mark in marks)
        tokens = total * longest // max(len(text), 1)
        return tokens if tokens >= minimum else 0


class Number(str):
    """A number as it was written."""


def prompt(raw):
    """The parts of a request that a vendor's cache sees, in order, each as text that differs where the bytes do: what
    stands before the conversation, then its items. Cache marks do not count."""
    try:
        body = json.loads(raw, parse_float=Number)
    except ValueError:
        return []
    if not isinstance(body, dict):
        return []
    body = without(body, "cache_control")
    before = {key: body[key] for key in ("system", "instructions", "systemInstruction", "tools") if key in body}
    items = next((body[key] for key in ("messages", "input", "contents") if isinstance(body.get(key), list)), [])
    return [compact(before), *(compact(item) for item in items)]


def common_prefix(one, other):
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def halves(text, pieces=3):
    """`text` in a few pieces, as a stream brings it."""
    size = max(1, -(-len(text) // pieces))
    return [text[at : at + size] for at in range(0, len(text), size)]
