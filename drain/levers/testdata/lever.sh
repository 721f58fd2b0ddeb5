#!/bin/sh
# A lever for tests: lever.sh DIR FAULT. It keeps to the contract, with a directory
# for every step that stands and one for every act; FAULT is the one way in which
# it does not. The step "remove" can't be taken back.
dir=$1 fault=$2

say() { printf '%s\n' "$1"; }
answer() {
	say "{\"result\":\"$1\",\"reason\":\"$2\"}"
	exit 0
}
text() { # of a field
	v=${in#*\"$1\":\"}
	if [ "$v" = "$in" ]; then v=; else v=${v%%\"*}; fi
}
# held waits, in mid-do, for a test that wants to find it there.
held() {
	: >"$dir/up"
	while [ -e "$dir/hold" ]; do sleep 0.05; done
}

# What is wrong with every answer, or with the lack of one.
case $fault in
reads-nothing) answer done '' ;;
esac
IFS= read -r in
case $fault in
nothing) exit 0 ;;
malformed) say '{"result":' && exit 0 ;;
two) say '{"result":"done"}{"result":"done"}' && exit 0 ;;
garbage) say '{"result":"done"} as I said' && exit 0 ;;
word) say '{"result":"splendid"}' && exit 0 ;;
list) say '["done"]' && exit 0 ;;
latin) printf '{"result":"done","progress":"\351t\351"}\n' && exit 0 ;;
exit) say '{"result":"done"}' && echo 'no such volume' >&2 && exit 3 ;;
big) printf '{"result":"done","progress":"%1100000s"}\n' x && exit 0 ;;
state) printf '{"result":"done","state":"%70000s"}\n' x && exit 0 ;;
flood) while :; do printf '%65536s' x; done ;;
noise) while :; do printf '%65536s' x >&2; done ;;
hang) exec sleep 600 ;;
shut) exec >&- && exec sleep 600 ;;
no-reason) say '{"result":"wait"}' && exit 0 ;;
esac

text op && op=$v
text act && act=$v
text of && of=$v
text step && step=$v
text drain && drain=$v
epoch=${in#*\"epoch\":}
epoch=${epoch%%[!0-9]*}
stands=$dir/stands/$step
acts=$dir/acts/$step

case $step in
snapshot | restore | remove) ;;
*) [ "$fault" = any-step ] || answer refused "there is no step $step" ;;
esac
mkdir -p "$dir/epochs" "$dir/acts" "$dir/stands"
seen=0
[ ! -e "$dir/epochs/$drain" ] || read -r seen <"$dir/epochs/$drain"
if [ "$epoch" -lt "$seen" ]; then
	[ "$fault" = old ] || answer refused "epoch $epoch, and $seen has been here"
else
	say "$epoch" >"$dir/epochs/$drain"
fi

case $op:$fault in
plan:eager) ;;
plan:*) answer done '' ;;
no-such-op:any-op) op=do ;;
esac
case $op in
do | plan)
	begun=no
	[ ! -d "$stands" ] || begun=yes
	case $fault:$begun in
	once:yes) answer failed 'it is there already' ;;
	first-only:yes) [ -d "$acts/$act" ] || answer refused 'another act has done it' ;;
	forever:*) mkdir -p "$acts/$act" && answer running '' ;;
	esac
	[ "$fault" != deaf ] || trap '' TERM
	mkdir -p "$acts/$act"
	held
	case $fault:$step in restore-*:restore) echo $$ >>"$dir/hung" ;; esac
	case $fault:$step in
	restore-hangs:restore) trap '' TERM && while :; do sleep 600; done ;;
	restore-floods:restore) while :; do printf '%65536s' x; done ;;
	restore-noise:restore) while :; do printf '%65536s' x >&2; done ;;
	esac
	case $fault in
	fork) sleep 600 >/dev/null 2>&1 & echo $! >"$dir/child" ;;
	session) setsid sleep 5 >/dev/null 2>&1 & ;;
	esac
	[ "$fault" = talk ] || mkdir -p "$stands"
	[ "$step" != remove ] || { say '{"result":"done","no_return":true}' && exit 0; }
	say "{\"result\":\"done\",\"state\":{\"step\":\"$step\"}}"
	;;
status)
	[ "$fault" != sure ] || answer done ''
	[ -d "$acts/$of" ] || answer failed 'it never began'
	case $fault in
	cut-done | talk) answer done '' ;;
	forever) answer running '' ;;
	esac
	[ ! -d "$stands" ] || answer done ''
	[ "$fault" != cut-runs ] || answer running ''
	answer failed 'it was cut short'
	;;
undo)
	case $fault:$step in
	stays:*) answer failed 'it stays' ;;
	lazy:* | returns:remove) answer done '' ;;
	*:remove) [ ! -d "$stands" ] || answer refused 'it is gone' ;;
	esac
	rm -rf "$stands" "$acts"
	answer done ''
	;;
*) answer refused "there is no op $op" ;;
esac
