#!/bin/bash
# Train everything on one machine with one or two GPUs: rows, targets, drafters, measurements.
#   lab/run.sh OUT
# Minutes for each part come from the environment (TARGET, UNLOOP, DRAFTER), as do the numbers of
# rows (SHORT, LONG). A part with 0 minutes is left out, and what it would have made is looked for in
# lab/build/start. OUT gets the checkpoints, their logs and the results. A second GPU trains the
# second target beside the first; with one GPU both share it.
set -u
OUT=$1 TARGET=${TARGET:-11} UNLOOP=${UNLOOP:-2} DRAFTER=${DRAFTER:-8} SHORT=${SHORT:-24000} LONG=${LONG:-4000}
SEED=${SEED:-a} LONG_SHARE=${LONG_SHARE:-0.35} NUMBER=${NUMBER:-200} START=lab/build/start
export PYTHONPATH=src:lab PYTHONUNBUFFERED=1 OMP_NUM_THREADS=4
ROWS=${ROWS:-/tmp/rows}
mkdir -p "$OUT" "$ROWS"
GPUS=$(python3 -c 'import torch; print(torch.cuda.device_count())')
python3 lab/data.py lab/build "$ROWS/short.npz" --rows "$SHORT" --length 2560 --seed "short-$SEED" || exit 1

drafter() { # drafter KIND TARGET OUT
  local resume=""
  if [ "$1" != mtp ] && [ -f "$START/$(basename "$3")" ]; then
    cp "$START/$(basename "$3")" "$3" && resume=--resume
  fi
  python3 lab/drafters.py "$1" lab/build "$2" "$3" --rows "$ROWS/short.npz" --minutes "$DRAFTER" $resume
}

one() { # one KIND NAME GPU
  export CUDA_VISIBLE_DEVICES=$3
  local name=$2 from=$START/$2.pt
  if [ "$TARGET" != 0 ]; then
    local resume=()
    [ -f "$from" ] && resume=(--resume "$from" --rate "${RATE:-1.5e-3}")
    python3 lab/train.py "$1" lab/build "$OUT/$name-raw.pt" --short "$ROWS/short.npz" \
      --long "$ROWS/long.npz" --long-share "$LONG_SHARE" --minutes "$TARGET" --compile "${resume[@]}" || return 1
    from=$OUT/$name-raw.pt
  fi
  if [ "$UNLOOP" != 0 ]; then
    python3 lab/unloop.py lab/build "$from" "$OUT/$name.pt" --rows "$ROWS/short.npz" \
      --long "$ROWS/long.npz" --minutes "$UNLOOP" && from=$OUT/$name.pt
  fi
  [ "$from" = "$OUT/$name.pt" ] || cp "$from" "$OUT/$name.pt"
  local drafts=(--dflash "$OUT/$name-dflash.pt") measured=$OUT/$name.pt
  drafter dflash "$OUT/$name.pt" "$OUT/$name-dflash.pt" &
  if [ "$1" = mla ]; then
    drafter mtp "$OUT/$name.pt" "$OUT/$name-mtp.pt" & wait
    [ -f "$OUT/$name-mtp.pt" ] && mv "$OUT/$name-mtp.pt" "$OUT/$name.pt"
  else
    drafter draft "$OUT/$name.pt" "$OUT/$name-draft.pt" & wait
    drafts+=(--draft "$OUT/$name-draft.pt")
  fi
  python3 lab/offline.py lab/build --target "$measured" "${drafts[@]}" --number "$NUMBER" --out "$OUT/$name.json"
}
one mla mla 0 & one dense qwen3 $((GPUS - 1)) &
if [ "$TARGET" != 0 ]; then
  python3 lab/data.py lab/build "$ROWS/long.npz" --rows "$LONG" --length 8192 --seed "long-$SEED" \
    && touch "$ROWS/long.done" &
fi
wait
