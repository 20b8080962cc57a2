#!/usr/bin/env python3
"""Two builds of the program train the same numbers, bit for bit.

    cmake -S OLD-TREE -B before -GNinja && cmake --build before
    cmake -S . -B after -GNinja && cmake --build after
    python3 tests/same_runs/same_runs.py before after [--only REGEX] [--folder DIR]

For a change of structure that must not change a number. Each case below is trained by both
builds, 60 steps of narrow networks, and compared: exit code, every tensor of the last snapshot,
its state and settings, events.jsonl, stats.jsonl and layers.jsonl line by line, and all
pictures of samples. Clocks are left out, settings and forms of the statistics that only the
second build has are named, and nothing else. renamed.tsv lists what has another
name in the second build: the old word, a tab, the new one.

Exit codes: 0 the same, 1 not so (each difference is named), 2 wrong use.
"""

import argparse
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
STEPS = 60
SMALL = '--g-width 8 --d-width 8 --batch 8 --grid 3x2 --preview off --keep 0'.split()
CLOCKS = re.compile(r'^(timestamp|seconds|clock|elapsed_sec|Timing/.*|Resources/.*)$')

STORM = '--max-skips 4 --g-init-scale 1024 --d-init-scale 1024'

# name, images per step over the batch of 8, settings of its own; then of a second run in the
# same folder, by --resume, to twice the length.
CASES = [
    ('preset-fmnist-quick', 1, '--preset fmnist-quick --data builtin:fashion'),
    ('preset-dcgan28', 1, '--preset dcgan28 --data builtin:fashion'),
    ('preset-dcgan32', 1, '--preset dcgan32 --data builtin:shapes'),
    ('preset-dcgan64', 1, '--preset dcgan64 --data builtin:shapes'),
    ('resolution-128', 1, '--resolution 128 --data builtin:shapes --g-width 4 --d-width 4'),
    ('fp32', 1, '--precision fp32'),
    ('bf16', 1, '--precision bf16'),
    ('bf16-with-scaler', 1, '--precision bf16 --scaler per-network'),
    ('g-fp16-d-bf16', 1, '--g-precision fp16 --d-precision bf16'),
    ('g-fp32-d-fp16', 1, '--g-precision fp32 --d-precision fp16'),
    ('fp32-layers', 1, '--fp32-layers d.conv2,g.*3'),
    ('per-network', 1, '--scaler per-network --g-growth-interval 7 --d-growth-interval 5'),
    ('shared', 1, '--scaler shared --g-growth-interval 7 --d-growth-interval 7'),
    ('shared-per-step', 1,
     '--scaler shared-per-step --g-growth-interval 7 --d-growth-interval 7'),
    ('per-loss', 1, '--scaler per-loss --g-growth-interval 7 --d-growth-interval 5'),
    ('per-loss-clip-accum', 2, '--scaler per-loss --d-clip-norm 1 --d-accum 2'),
    ('static', 1, '--scaler static:128'),
    ('scaler-off', 1, '--scaler off'),
    ('skip-both', 1, '--skip both --inject d:20-22:inf,g:30:nan'),
    ('skip-both-shared', 1, '--skip both --scaler shared --inject d:20-22:inf,g:30:nan'),
    ('skip-both-per-loss', 1, '--skip both --scaler per-loss --inject d:20-22:inf,g:30:nan'),
    ('n-dis', 3, '--n-dis 3'),
    ('accumulation', 3, '--d-accum 3 --g-accum 2'),
    ('g-accumulates-more', 1, '--g-accum 3'),
    ('n-dis-accumulation', 4, '--n-dis 2 --d-accum 2 --g-accum 2 --scaler per-loss'),
    ('recompute', 1, '--recompute'),
    ('clip', 1, '--g-clip-norm 0.5 --d-clip-norm 1'),
    ('no-average', 1, '--ema-kimg 0'),
    ('smoothing-mirror', 1, '--label-smoothing 0.1 --mirror --seed 7'),
    ('rates', 1, '--g-lr 1e-3 --g-beta1 0 --d-beta2 0.9 --d-eps 1e-6 --latent 24'),
    ('init-scale-auto', 1, '--g-init-scale auto --d-init-scale auto --init-margin 1'),
    ('init-scale-auto-per-loss', 1,
     '--scaler per-loss --g-init-scale auto --d-init-scale auto --init-margin 2'),
    ('rules', 1, '--d-hysteresis 2 --d-growth-delay 1 --g-overflow-tolerance 0.05 '
     '--d-growth-interval 4 --g-growth-interval 3 --d-min-scale 2 --g-max-scale 131072'),
    ('layer-statistics', 1, '--grad-stats 7'),
    ('layer-statistics-bf16', 2, '--grad-stats 9 --precision bf16 --d-accum 2'),
    ('faults-gradients', 1, '--inject d:10-12:inf,g:15:nan --grad-stats 20'),
    ('faults-forward', 1, '--inject g:12:nan-forward,d:20:huge-activation'),
    ('storm-stop', 1, STORM + ' --inject d:20-:inf'),
    ('storm-warn', 1, STORM + ' --inject d:20-32:inf --on-overflow-storm warn'),
    ('storm-rollback', 1, STORM + ' --inject d:40-44:inf --on-overflow-storm rollback'),
    ('storm-fp32-layer', 1,
     STORM + ' --inject d:30-:huge-activation --on-overflow-storm fp32-layer'),
    ('storm-bad-weight', 1, STORM + ' --inject g:30:bad-weight --on-overflow-storm rollback'),
    ('set-at', 1, '--set-at 0.16:g.lr=1e-3,d.scale=64,0.24:d.growth_interval=4'),
    ('resume', 1, '--d-growth-interval 9', '--d-lr 1e-3'),
    ('resume-per-loss', 1, '--scaler per-loss --skip both', '--inject d:70-72:inf'),
    ('threads', 1, '--threads 3'),
    ('two-ranks', 1, '--device cuda:0 --gpus 2 --inject d:20-22:inf'),
    ('two-ranks-sync-bn', 1, '--device cuda:0 --gpus 2 --sync-bn --scaler per-loss'),
    ('two-ranks-storm', 1, '--device cuda:0 --gpus 2 --inject d:40-:inf '
     '--on-overflow-storm stop ' + STORM),
]


def read_renames():
    pairs = []
    for line in (HERE / 'renamed.tsv').read_text().splitlines():
        if line and not line.startswith('#'):
            old, new = line.split('\t')
            pairs.append((old, new))
    return pairs


RENAMES = read_renames()
NEW_SETTINGS, NEW_FILES = set(), set()  # of the second build alone


def renamed(word):
    """An old name as the second build has it: whole names, or a part between dots."""
    for old, new in RENAMES:
        if word == old:
            return new
    return word


def without_clocks(value, is_old):
    """A JSON value without its clocks; names of the first build as the second has them."""
    if isinstance(value, dict):
        return {renamed(key) if is_old else key: without_clocks(item, is_old)
                for key, item in value.items() if not CLOCKS.match(key)}
    if isinstance(value, list):
        return [without_clocks(item, is_old) for item in value]
    if isinstance(value, str) and is_old:
        return renamed(value)
    return value


def read_snapshot(path):
    """(tensors by name: dtype, shape, bytes; metadata) of a safetensors file."""
    data = path.read_bytes()
    length = struct.unpack('<Q', data[:8])[0]
    header = json.loads(data[8:8 + length])
    meta = header.pop('__metadata__')
    body = data[8 + length:]
    return {name: (entry['dtype'], entry['shape'], body[slice(*entry['data_offsets'])])
            for name, entry in header.items()}, meta


def differences(name, old, new):
    """Sentences for what differs between two JSON values."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(set(old) | set(new)):
            if key not in old or key not in new:
                yield f'{name}.{key}: only {"before" if key in old else "after"}'
            else:
                yield from differences(f'{name}.{key}', old[key], new[key])
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, pair in enumerate(zip(old, new)):
            yield from differences(f'{name}[{index}]', *pair)
    elif json.dumps(old) != json.dumps(new):  # as text: NaN equals NaN, -0 is not 0
        yield f'{name}: {json.dumps(old)[:200]} before, {json.dumps(new)[:200]} after'


def compare_snapshots(name, old, new):
    old_tensors, old_meta = read_snapshot(old)
    new_tensors, new_meta = read_snapshot(new)
    old_tensors = {renamed(key): value for key, value in old_tensors.items()}
    for key in sorted(set(old_tensors) | set(new_tensors)):
        if key not in old_tensors or key not in new_tensors:
            yield f'{name}: {key} only {"before" if key in old_tensors else "after"}'
        elif old_tensors[key] != new_tensors[key]:
            yield f'{name}: {key} differs'
    for key in ('state', 'config', 'data', 'found_scales'):
        pair = [old_meta.get(key, 'null'), new_meta.get(key, 'null')]
        if key != 'found_scales':
            pair = [without_clocks(json.loads(text), text is pair[0]) for text in pair]
        if key == 'config':  # where the two builds wrote is no setting
            for config in pair:
                config.pop('out'), config.pop('resume')
            NEW_SETTINGS.update(pair[1].keys() - pair[0].keys())
            for name_of_new in NEW_SETTINGS:
                pair[1].pop(name_of_new, None)
        yield from differences(f'{name} {key}', *pair)


def compare_lines(name, old, new):
    files = [path.read_text().splitlines() if path.exists() else [] for path in (old, new)]
    if len(files[0]) != len(files[1]):
        yield f'{name}: {len(files[0])} lines before, {len(files[1])} after'
    for number, (one, other) in enumerate(zip(*files), 1):
        yield from differences(f'{name}:{number}', without_clocks(json.loads(one), True),
                               without_clocks(json.loads(other), False))


def run_folder(out):
    return next(out.glob('00000-*'), None)


def compare_folders(old, new):
    names = [{path.name for path in folder.iterdir() if path.name != 'control'}
             for folder in (old, new)]
    NEW_FILES.update(name for name in names[1] - names[0] if name.startswith('stats.'))
    for name in sorted((names[0] ^ names[1]) - NEW_FILES):
        yield f'{name}: only {"before" if name in names[0] else "after"}'
    for name in sorted(names[0] & names[1]):
        if name.endswith('.safetensors'):
            yield from compare_snapshots(name, old / name, new / name)
        elif name.endswith('.jsonl'):
            yield from compare_lines(name, old / name, new / name)
        elif re.match(r'(fakes|reals|batch).*\.png$', name):
            if (old / name).read_bytes() != (new / name).read_bytes():
                yield f'{name} differs'


def train(build, out, words):
    ranks = '--gpus' in words
    program = build / ('tests/app/cpu_ranks' if ranks else 'twinscale')
    result = subprocess.run([program, 'train', *words], stdout=subprocess.PIPE, cwd=out.parent,
                            stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
    return result.returncode, result.stdout


def run_case(build, out, case):
    name, share, words, *later = case
    per_step = 8 * share / 1000
    words = words.split()
    if '--data' not in words:
        words += ['--data', 'builtin:fashion', '--preset', 'dcgan28']
    if '--threads' not in words:
        words += ['--threads', '2']
    lengths = ['--tick', f'{10 * per_step:g}', '--snap', f'{20 * per_step:g}',
               '--img-snap', f'{30 * per_step:g}']
    code, text = train(build, out, SMALL + words + lengths + [
        '--out', out.name, '--kimg', f'{STEPS * per_step:g}'])
    for more in later:
        folder = run_folder(out)
        more_code, more_text = train(build, out, [
            '--resume', str(folder), '--kimg', f'{2 * STEPS * per_step:g}', *more.split()])
        code, text = (code, more_code), text + more_text
    return code, text


def main():
    parser = argparse.ArgumentParser(description='two builds train the same numbers')
    parser.add_argument('before', type=pathlib.Path, help='build folder of the old tree')
    parser.add_argument('after', type=pathlib.Path, help='build folder of the new one')
    parser.add_argument('--only', default='', help='cases whose name matches this')
    parser.add_argument('--folder', type=pathlib.Path, help='keeps the runs there')
    options = parser.parse_args()
    folder = options.folder or pathlib.Path(tempfile.mkdtemp())
    differ = ran = 0
    for case in CASES:
        if not re.search(options.only, case[0]):
            continue
        ran += 1
        outs, results = [], []
        for side, build in (('before', options.before), ('after', options.after)):
            out = (folder / case[0] / side / 'o').resolve()
            shutil.rmtree(out.parent, ignore_errors=True)
            out.mkdir(parents=True)
            outs.append(out)
            results.append(run_case(build.resolve(), out, case))
        found = []
        if results[0][0] != results[1][0]:
            found.append(f'exit code {results[0][0]} before, {results[1][0]} after:\n'
                         + results[1][1][-2000:])
        runs = [run_folder(out) for out in outs]
        if None in runs:
            found.append('no run folder:\n' + results[runs.index(None)][1][-2000:])
        else:
            found += compare_folders(*runs)
        print(f'{case[0]}: ' + ('the same' if not found else f'{len(found)} differences')
              + f', exit code {results[0][0]}', flush=True)
        for line in found[:12]:
            print('    ' + line)
        differ += bool(found)
    if not options.folder:
        shutil.rmtree(folder)
    if NEW_SETTINGS or NEW_FILES:
        print('of the second build alone:', *sorted(NEW_SETTINGS | NEW_FILES))
    print(f'{ran - differ} of {ran} cases are the same')
    sys.exit(0 if ran and not differ else 1)


if __name__ == '__main__':
    main()
