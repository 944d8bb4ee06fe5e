#!/bin/sh
# One night of a map: brings the history that the nights before have kept, harvests, keeps it, and publishes it.
#   nightly.sh NAME SITE [OPTIONS of `tileharvest harvest`]
# Run it in a clone of the repository that has maps.toml. SITE becomes the folder of the page. The history and the images are
# the branch BRANCH (default: history), which always has one commit: what an earlier night had is not kept twice.
set -eu
name=$1 site=$2
shift 2
branch=${BRANCH:-history}

# 2 means that the repository has no such branch yet. After any other failure nothing must be pushed.
known=0
was=$(git ls-remote --exit-code origin "refs/heads/$branch") || known=$?
was=${was%%[!0-9a-f]*}
case $known in
0)
    git fetch --quiet --depth 1 origin "$was"
    git worktree add --quiet --force --detach data "$was"
    ;;
2)
    git worktree add --quiet --force --detach --no-checkout data HEAD
    git -C data read-tree --empty
    ;;
*)
    echo "nightly.sh: the repository cannot be asked for the branch $branch; nothing was harvested" >&2
    exit 1
    ;;
esac

# A harvest may end with failed tiles (3), by a budget (4) or because the site is away (5): what it found is kept.
status=0
tileharvest harvest "$name" --no-wait "$@" || status=$?

if [ -e data/history.sqlite ]; then
    # Queues, limits and caches are of this computer alone.
    git -C data add --all 'history.sqlite*' ':!history.sqlite-shm'
    for path in tiles areas.toml; do
        if [ -e "data/$path" ]; then git -C data add --all "$path"; fi
    done
    commit=$(git -C data commit-tree -m "The history of $name" "$(git -C data write-tree)")
    # Refused if another run has pushed meanwhile.
    git -C data push --quiet --force-with-lease="refs/heads/$branch:$was" origin "$commit:refs/heads/$branch"
    tileharvest publish "$name" "$site"
fi
case $status in
3 | 4) exit 0 ;;
*) exit $status ;;
esac
