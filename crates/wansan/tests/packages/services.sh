# The services as the package brings them: run by debian.rs as a unit of systemd, in a Debian booted for it.
set -eux
name=iqn.2026-11.net.example:disk
services='wansan-attach wansan-relay wansan-target'
# `!` alone would not end the script.
fails() { if "$@"; then false; fi; }
trap 'journalctl --no-pager --unit "wansan-*"' EXIT

dpkg --install /wansan.deb
fails systemctl is-enabled $services
fails systemctl is-active $services

cat >/etc/wansan/target.toml <<EOF
listen = ["127.0.0.1:3260"]
[[target]]
name = "$name"
[[target.lun]]
store = "file:/var/lib/wansan/disk.img,size=64MiB"
EOF
cat >/etc/wansan/relay.toml <<EOF
[[listener]]
listen = "127.0.0.1:3261"
to = "127.0.0.1:3260"
latency = "20ms"
law = "arrival"
EOF
cat >/etc/wansan/attach.toml <<EOF
[[disk]]
url = "iscsi://127.0.0.1:3261/$name/0"
nbd = "unix:/run/wansan/disk.sock"
journal = "/var/lib/wansan-attach/disk.journal"
journal_size = "64MiB"
EOF
# Each is started, and says that it is ready, by itself.
systemctl enable --now wansan-target
systemctl start wansan-relay
systemctl start wansan-attach

# Through NBD, journal, relay and target to the file.
dd if=/dev/urandom of=/image bs=1M count=64
wansan copy --verify /image 'nbd+unix:///?socket=/run/wansan/disk.sock'

# An upgrade leaves them alone.
before=$(systemctl show --property MainPID $services)
dpkg --install /wansan.deb
[ "$before" = "$(systemctl show --property MainPID $services)" ]
systemctl is-enabled wansan-target

# They end in order, with everything where it belongs.
systemctl stop wansan-attach
systemctl stop wansan-relay
for service in wansan-attach wansan-relay; do
    [ "$(systemctl show --value --property Result $service)" = success ]
done
cmp /image /var/lib/wansan/disk.img
[ "$(stat -c %U /var/lib/wansan/disk.img)" = wansan ]
[ "$(stat -c %U /var/lib/wansan-attach/disk.journal)" = root ]

# One that runs is stopped when its program is removed.
systemctl is-active wansan-target
dpkg --purge wansan
fails systemctl is-active wansan-target
fails systemctl is-enabled wansan-target
