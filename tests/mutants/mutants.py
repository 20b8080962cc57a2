"""mutants.py - see run.sh, which starts it.

A file of faults/ is one room; a fault is a block of lines, closed by an empty one:
    in    kernels/ref/ref_loss.c
    old   x > 0.0f ? 1.0          part of a line that stands once in that file
    new   x >= 0.0f ? 1.0
    test  kernels/ref_gradients   names of ctest, or the beginnings of names before a *
    of    only where it ignores a setting: the setting's name, or g_NAME d_NAME
    why   only where it survives: what makes it no fault
Lines that begin with # are notes."""
import argparse
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KEYS = ("in", "old", "new", "test", "of", "why")
TABLE = "app/config/config_table.c"  # one row for each setting
TEST_SECONDS = 900  # of one test, many times what the slowest takes
BUILD_SECONDS = 3600
WANTED_SHARE = 0.98


class Fault:
    def __init__(self, room, line, fields):
        self.room, self.line = room, line
        self.file, self.old, self.new = (fields.get(k, "") for k in KEYS[:3])
        self.tests, self.ignores = (fields.get(k, "").split() for k in KEYS[3:5])
        self.why = fields.get("why", "")
        text = "\0".join((self.file, self.old, self.new))
        self.key = hashlib.sha256(text.encode()).hexdigest()[:16]

    def name(self):
        return f"{self.room}:{self.line} {self.file}: {self.old.strip()} -> {self.new.strip()}"


def read_blocks(path):
    """Yields (number of the first line, fields) for every block of a file of faults."""
    first, fields = 0, {}
    for number, line in enumerate(path.read_text().splitlines() + [""], 1):
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                yield first, fields
            fields = {}
            continue
        key, value = line[:6].strip(), line[6:]
        if key not in KEYS or key in fields:
            sys.exit(f"{path}:{number}: begins with \"{key}\"; expected one of "
                     f"{', '.join(KEYS)}, once in a block")
        first = first if fields else number
        fields[key] = value


def read_faults(folder):
    return [Fault(path.stem, line, fields) for path in sorted(folder.glob("*.txt"))
            for line, fields in read_blocks(path)]


def misfit(fault, root):
    """What is wrong with a fault's description in this tree; "" for nothing."""
    path = root / fault.file
    if not fault.tests:
        return "names no test"
    if not fault.file or not path.is_file():
        return f"there is no file \"{fault.file}\""
    if not fault.old or fault.old == fault.new:
        return "changes nothing"
    count = path.read_text().count(fault.old)
    if count != 1:
        return f"its old text stands {count} times in that file; 1 is expected"
    return ""


def read_settings(root):
    """The names in the table of settings; a row of NETWORK(n) is one of g's and one of d's."""
    path = root / TABLE
    text = path.read_text() if path.is_file() else ""
    own = re.findall(r'^ *\{#n "(_\w+)",', text, re.M)
    return re.findall(r'^ *\{"(\w+)",', text, re.M) + [n + name for n in "gd" for name in own]


def check_settings(faults, root):
    """Reports every setting that no fault ignores, and a name of none; returns how many."""
    settings = set(read_settings(root))
    ignored = {name for fault in faults for name in fault.ignores}
    for name in sorted(settings - ignored):
        print(f"{name}: no fault ignores this setting; one has to, with the line \"of\"")
    for name in sorted(ignored - settings):
        print(f"{name}: a fault is said to ignore it, and {TABLE} has no such setting")
    return len(settings ^ ignored)


def check(faults, root):
    """Reports every fault whose place has gone; returns how many."""
    bad = 0
    for fault in faults:
        wrong = misfit(fault, root)
        if wrong:
            print(f"{fault.name()}: {wrong}")
            bad += 1
    return bad


# ---- the copy ------------------------------------------------------------------------


def run(arguments, seconds, **options):
    """Exit code (None: it did not end in time) and what was said. The whole group ends."""
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", start_new_session=True,
                               **options)
    try:
        said, _ = process.communicate(timeout=seconds)
        return process.returncode, said
    except BaseException as reason:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(reason, subprocess.TimeoutExpired):
            return None, f"not done after {seconds} s"
        raise


class Copy:
    """The tree as it is on disk, with a build of its own."""

    def __init__(self, folder, jobs):
        self.tree, self.build, self.jobs = folder / "tree", folder / "build", jobs
        self.refresh()
        if not (self.build / "CMakeCache.txt").exists():
            # Compiling takes more of the time than running does.
            self.must(["cmake", "-S", self.tree, "-B", self.build, "-GNinja",
                       "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O1",
                       "-DCMAKE_CXX_FLAGS=-O1"])
        self.must(["cmake", self.build])
        self.tests = self.read_tests()
        self.passing, self.broken = set(), {}

    def refresh(self):
        """Copies what differs: an equal file keeps its time, so that it is not built."""
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others",
                                 "--exclude-standard"], cwd=ROOT, check=True,
                                capture_output=True, text=True).stdout.split("\0")
        wanted = {name for name in listed if name and (ROOT / name).is_file()}
        for name in wanted:
            source, target = ROOT / name, self.tree / name
            if target.is_file() and target.read_bytes() == source.read_bytes():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)  # the mode too, but a new time
        for path in list(self.tree.rglob("*")):
            if path.is_file() and str(path.relative_to(self.tree)) not in wanted:
                path.unlink()

    def must(self, arguments):
        code, said = run(arguments, BUILD_SECONDS)
        if code != 0:
            sys.exit(f"{' '.join(map(str, arguments))}: exit code {code}\n{said[-3000:]}")

    def read_tests(self):
        """Which files have to be built for each test: ctest lists only what is built."""
        tests = {}
        for path in self.build.rglob("CTestTestfile.cmake"):
            for name, command in re.findall(r"^add_test\(\[=\[(.*?)\]=\] (.*)\)$",
                                            path.read_text(), re.M):
                words = [os.path.relpath(word, self.build)
                         for word in re.findall(r'"(.*?)"', command)]
                tests[name] = [word for word in words if not word.startswith("..")]
        return tests

    def find(self, words):
        names = []
        for word in words:
            found = [name for name in self.tests if name == word or
                     word.endswith("*") and name.startswith(word[:-1])]
            if not found:
                return None
            names += found
        return sorted(set(names))

    def try_tests(self, names):
        """("killed" | "survived" | "does-not-build", what was seen)"""
        targets = sorted({file for name in names for file in self.tests[name]})
        code, said = run(["cmake", "--build", self.build, "--parallel", str(self.jobs),
                          "--target", *(targets or ["all"])], BUILD_SECONDS)
        if code != 0:
            return "does-not-build", said[-600:]
        pattern = "^(" + "|".join(map(re.escape, names)) + ")$"
        code, said = run(["ctest", "-R", pattern, "-j", str(self.jobs), "--timeout",
                          str(TEST_SECONDS), "--stop-on-failure", "--no-tests=error"],
                         TEST_SECONDS * (len(names) + 1), cwd=self.build)
        failed = re.findall(r"^\s*\d+ - (\S+) \((.*)\)$", said, re.M)
        seen = [f"{name} ({how})" for name, how in failed if "Skipped" not in how]
        if code == 0:
            if "***Skipped" in said:
                return "skipped", "a test is skipped on this machine"
            return "survived", ""
        return "killed", ", ".join(seen) or f"ctest ended with {code}"

    def failing(self, names):
        """What fails without a fault, and would kill whatever is planted; "" for nothing."""
        for name in sorted(set(names) - self.passing):
            if name not in self.broken:
                result, seen = self.try_tests([name])
                if result == "survived":
                    self.passing.add(name)
                    continue
                self.broken[name] = f"without a fault, {name}: {result} {seen}"
            return self.broken[name]
        return ""

    def plant(self, fault):
        path = self.tree / fault.file
        text = path.read_text()
        path.write_text(text.replace(fault.old, fault.new))
        return lambda: path.write_text(text)


# ---- results -------------------------------------------------------------------------


def read_results(path):
    """key -> (result, what was seen); a later line wins."""
    results = {}
    if path.exists():
        for line in path.read_text().splitlines():
            key, result, seen = (line.split("\t") + ["", ""])[:3]
            results[key] = (result, seen)
    return results


def try_fault(copy, fault):
    wrong = misfit(fault, copy.tree)
    if wrong:
        return "misfit", wrong
    names = copy.find(fault.tests)
    if names is None:
        return "misfit", "no test of that name: " + " ".join(fault.tests)
    failing = copy.failing(names)
    if failing:
        return "not tried", failing
    restore = copy.plant(fault)
    try:
        return copy.try_tests(names)
    finally:
        restore()


def run_all(faults, folder, jobs, path):
    done = read_results(path)
    left = [fault for fault in faults if fault.key not in done]
    if not left:
        return
    copy = Copy(folder, jobs)
    for number, fault in enumerate(left, 1):
        result, seen = try_fault(copy, fault)
        if result != "not tried":  # that may be for a busy machine: the next run tries again
            with path.open("a") as file:
                file.write("\t".join((fault.key, result, " ".join(seen.split()))) + "\n")
        print(f"{number}/{len(left)} {result:9} {fault.name()}  {seen.strip()}", flush=True)


def summary(faults, results):
    """Prints killed of tried by room, and every one that was not; returns the exit code."""
    rooms, bad, unexplained = {}, 0, 0
    for fault in faults:
        result, seen = results.get(fault.key, ("not tried", ""))
        killed, tried = rooms.get(fault.room, (0, 0))
        if result in ("killed", "survived"):
            rooms[fault.room] = (killed + (result == "killed"), tried + 1)
        if result != "killed":
            print(f"{result}: {fault.name()}  {fault.why or seen}")
        bad += result in ("misfit", "does-not-build")
        unexplained += result == "survived" and not fault.why
    killed, tried = (sum(column) for column in zip(*rooms.values())) if rooms else (0, 0)
    for room, (part, whole) in sorted(rooms.items()):
        print(f"{room:10} {part:3} of {whole:3} killed")
    share = killed / tried if tried else 0.0
    print(f"{'all':10} {killed:3} of {tried:3} killed, {100.0 * share:.1f} %")
    return 2 if bad else int(share < WANTED_SHARE or unexplained > 0)


def main():
    parser = argparse.ArgumentParser(description="Plants single faults; see run.sh.")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "mutants")
    parser.add_argument("--faults", type=pathlib.Path, default=HERE / "faults")
    parser.add_argument("--root", type=pathlib.Path, default=ROOT)
    for word in ("--again", "--survivors", "--check"):
        parser.add_argument(word, action="store_true")
    given = parser.parse_args()
    faults = [fault for fault in read_faults(given.faults)
              if re.search(given.only, " ".join([fault.name(), *fault.tests]))]
    if not faults:
        sys.exit(f"no fault matches \"{given.only}\"")
    if given.check:
        bad = check(faults, given.root)
        print(f"{len(faults)} faults, {bad} of them not in their files")
        if not given.only:
            bad += check_settings(faults, given.root)
        return 2 if bad else 0
    given.folder.mkdir(parents=True, exist_ok=True)
    path = given.folder / "results.tsv"
    if given.again:
        keys = {fault.key for fault in faults}
        kept = [line for line in path.read_text().splitlines()
                if line.split("\t")[0] not in keys] if path.exists() else []
        path.write_text("".join(line + "\n" for line in kept))
    if not given.survivors:
        run_all(faults, given.folder.resolve(), given.jobs, path)
    return summary(faults, read_results(path))


def stop(number, frame):
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; run again to go on")
