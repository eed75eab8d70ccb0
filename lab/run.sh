#!/bin/bash
# Make the nano models, from text to folders that a server loads:  lab/run.sh OUT
#
# Text and tokenizer are made where they are missing (a Debian machine; no GPU), then rows, targets,
# drafters and measurements (one or two GPUs; a second one trains the second target beside the
# first). Minutes and numbers of rows come from the environment; the defaults are what the shipped
# models had, about 25 minutes of two H200s. Drafters of the two targets train at the same time.
set -u
OUT=$1 BUILD=lab/build ROWS=${ROWS:-lab/build/rows}
TARGET=${TARGET:-11} LONG_SHARE=${LONG_SHARE:-0.35} UNLOOP=${UNLOOP:-1.7} FAR=${FAR:-2.9} DRAFTER=${DRAFTER:-7.1}
SHORT=${SHORT:-24000} LONG=${LONG:-8000} NUMBER=${NUMBER:-200} PYTHON=${PYTHON:-python3}
export PYTHONPATH=src:lab PYTHONUNBUFFERED=1 OMP_NUM_THREADS=${OMP_NUM_THREADS:-3}
mkdir -p "$OUT" "$ROWS"

[ -f $BUILD/corpus.json.xz ] || $PYTHON lab/corpus.py $BUILD || exit 1
[ -f $BUILD/tokenizer.json ] || $PYTHON lab/tokenizer.py $BUILD || exit 1
GPUS=$($PYTHON -c 'import torch; print(torch.cuda.device_count())')
$PYTHON lab/data.py $BUILD "$ROWS/short.npz" --rows "$SHORT" --length 2560 --seed short || exit 1
rows_of() { # rows_of NAME ROWS SHARES: long rows, made while the GPUs work
  $PYTHON lab/data.py $BUILD "$ROWS/$1.npz" --rows "$2" --length 8192 --seed "$1" --shares "$3" \
    && touch "$ROWS/$1.done"
}
{ rows_of long "$LONG" '{}'; rows_of far 11000 '{"archive": 64, "task": 12, "code": 24}'; } &

target() { # target KIND NAME BLEND: the target, loops taken out, and blended back
  $PYTHON lab/train.py "$1" $BUILD "$OUT/$2-raw.pt" --short "$ROWS/short.npz" --long "$ROWS/long.npz" \
    --long-share "$LONG_SHARE" --minutes "$TARGET" --compile || return 1
  $PYTHON lab/unloop.py $BUILD "$OUT/$2-raw.pt" "$OUT/$2-unlooped.pt" --rows "$ROWS/short.npz" \
    --long "$ROWS/long.npz" --minutes "$UNLOOP" || return 1
  $PYTHON lab/blend.py "$OUT/$2-raw.pt" "$OUT/$2-unlooped.pt" "$3" "$OUT/$2-blend.pt"
}
drafter() { # drafter KIND TARGET OUT TEXTS OPTIONS...
  local kind=$1 from=$2 out=$3 texts=$4; shift 4
  $PYTHON lab/drafters.py "$kind" $BUILD "$from" "$out" --rows "$ROWS/short.npz" --texts "$texts" --compile "$@"
}
mla() {
  export CUDA_VISIBLE_DEVICES=0
  target mla mla 0.75 || return 1
  $PYTHON lab/texts.py $BUILD "$OUT/mla-blend.pt" "$ROWS/mla" --rows "$ROWS/short.npz" --minutes "$DRAFTER" &
  drafter dflash "$OUT/mla-blend.pt" "$OUT/mla-dflash.pt" "$ROWS/mla" --minutes "$DRAFTER" &
  drafter mtp "$OUT/mla-blend.pt" "$OUT/mla.pt" "$ROWS/mla" --minutes 4.2 --batch 48 --rate 1e-3 &
  wait
  $PYTHON lab/offline.py $BUILD --target "$OUT/mla.pt" --dflash "$OUT/mla-dflash.pt" --number "$NUMBER" --out "$OUT/mla.json"
}
qwen3() {
  export CUDA_VISIBLE_DEVICES=$((GPUS - 1))
  target dense qwen3 0.5 || return 1
  $PYTHON lab/train.py dense $BUILD "$OUT/qwen3.pt" --short "$ROWS/short.npz" --long "$ROWS/far.npz" \
    --long-share 1 --minutes "$FAR" --rate 1e-3 --compile --resume "$OUT/qwen3-blend.pt" || return 1
  $PYTHON lab/texts.py $BUILD "$OUT/qwen3.pt" "$ROWS/qwen3" --rows "$ROWS/short.npz" --minutes "$DRAFTER" &
  drafter dflash "$OUT/qwen3.pt" "$OUT/qwen3-dflash.pt" "$ROWS/qwen3" --minutes "$DRAFTER" &
  drafter draft "$OUT/qwen3.pt" "$OUT/qwen3-draft.pt" "$ROWS/qwen3" --minutes "$DRAFTER" &
  wait
  $PYTHON lab/offline.py $BUILD --target "$OUT/qwen3.pt" --dflash "$OUT/qwen3-dflash.pt" \
    --draft "$OUT/qwen3-draft.pt" --number "$NUMBER" --out "$OUT/qwen3.json"
}
mla & qwen3 &
wait

folder() { $PYTHON lab/export.py "$OUT/$1.pt" "$OUT/nano/$1" --target-layers "${2:-0}"; }
folder mla && folder mla-dflash 4 && folder qwen3 && folder qwen3-dflash 6 && folder qwen3-draft
