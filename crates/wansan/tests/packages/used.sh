# What the package is for, in a root that has nothing but it: run by debian.rs, as root in namespaces of its own.
set -eux
name=iqn.2026-11.net.example:disk
url=iscsi://127.0.0.1:3260/$name/0

# Succeeds when its arguments do, within a minute.
await() {
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 600 ]
        sleep 0.1
    done
}

# Nothing to diagnose yet.
status=0
wansan diagnose --for 1s >/tmp/out 2>&1 || status=$?
[ $status = 2 ]
grep 'there is no iSCSI on this host' /tmp/out

# As wansan-target.service runs it.
install -d -o wansan -g wansan /var/lib/wansan
cat >/etc/wansan/target.toml <<EOF
listen = ["127.0.0.1:3260"]
[[target]]
name = "$name"
[[target.lun]]
store = "file:/var/lib/wansan/disk.img,size=64MiB"
EOF
setpriv --reuid wansan --regid wansan --clear-groups wansan target --config /etc/wansan/target.toml &
target=$!
await wansan initiator-check $url >/tmp/out 2>&1

# As wansan-attach.service runs it.
cat >/etc/wansan/attach.toml <<EOF
[[disk]]
url = "$url"
nbd = "unix:/tmp/disk.sock"
EOF
wansan attach --config /etc/wansan/attach.toml &
attach=$!
await test -S /tmp/disk.sock
wansan attach list | grep "$url"

# What goes in by NBD comes out by iSCSI.
dd if=/dev/urandom of=/tmp/image bs=1M count=64
wansan copy --verify /tmp/image 'nbd+unix:///?socket=/tmp/disk.sock'
wansan copy $url /tmp/copied
cmp /tmp/image /tmp/copied

# Diagnosed while it is loaded: sessions are looked for at the beginning. The attached disk has one connection, those
# of copies end by and by. Port 3260 is 0CBC.
connections() { [ "$(grep -c '^ *[0-9]*: [0-9A-F]*:0CBC [0-9A-F:]* 01 ' /proc/net/tcp)" = "$1" ]; }
await connections 1
wansan bench $url --op read --block 4KiB --parallel 4 --time 60s >/tmp/bench 2>&1 &
bench=$!
await connections 2
wansan diagnose --for 3s >/tmp/out
grep ' to 127.0.0.1:3260; both ends are on this host, initiator wansan, target wansan' /tmp/out
grep ' IOPS, latency ' /tmp/out
kill $bench
wait $bench || true

kill $attach
wait $attach
kill $target
wait $target
cmp /tmp/image /var/lib/wansan/disk.img
# The user that serves them owns the disks, and others cannot read settings, which may name secrets.
[ "$(stat -c %U /var/lib/wansan/disk.img)" = wansan ]
[ "$(stat -c %G:%a /etc/wansan)" = wansan:750 ]
rm -r /tmp/*
