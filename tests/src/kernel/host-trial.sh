#!/bin/sh
# Tests the features of this machine's kernel that a lab needs, in temporary namespaces. If one is missing, prints the reason on
# stderr in one line and exits with 1.
#   host-trial.sh nftables|iptables   the rules that implement the data plane
set -u
PATH=$PATH:/usr/sbin:/sbin:/usr/bin:/bin

cannot() {
  echo "$1" >&2
  exit 1
}

[ "$(id -u)" -eq 0 ] || cannot 'root is required'
# The lab must not load this module itself: it changes the behaviour of this machine's bridges.
[ -e /proc/sys/net/bridge/bridge-nf-call-iptables ] ||
  cannot 'the module br_netfilter is not loaded; to load it, run modprobe br_netfilter'

common='set -e
mount -t tmpfs tmpfs /run
ip netns add a
ip -n a link add br0 type bridge
ip -n a link add v0 type veth peer name v1
ip -n a link set v0 master br0
ip -n a link set v0 type bridge_slave hairpin on
exec nsenter --net=/run/netns/a sh -ec "$1"'

# Needed by every lab: NAT of 10.0.2.2, the network plugin, balancers.
every='
echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables
nft -f - <<RULES
table ip trial {
 map verdicts { type ipv4_addr . inet_proto . inet_service : verdict; }
 chain endpoint { meta l4proto tcp dnat to 192.0.2.1:80; }
 chain choice { fib saddr type local numgen random mod 1 vmap { 0 : goto endpoint }; }
 chain translate { type nat hook prerouting priority -100; ip daddr . meta l4proto . th dport vmap @verdicts; }
 chain leave { type nat hook postrouting priority 100; masquerade fully-random; }
 chain refuse { type filter hook forward priority 0; ct state new reject; }
}
RULES
xtables-nft-multi iptables-restore <<RULES
*nat
-A PREROUTING -p tcp -m statistic --mode random --probability 0.5 -j DNAT --to-destination 192.0.2.1:80
-A POSTROUTING -m conntrack --ctorigdst 192.0.2.1/32 -j SNAT --to-source 192.0.2.2
-A POSTROUTING -s 192.0.2.0/24 ! -d 192.0.2.0/24 -j MASQUERADE
COMMIT
*mangle
-A PREROUTING -i eth0 -p tcp --dport 80 -j CONNMARK --set-xmark 0x100/0x100
-A PREROUTING -m connmark --mark 0x100/0x100 -m conntrack --ctdir REPLY -j MARK --set-xmark 0x100/0x100
COMMIT
*filter
-A FORWARD -m length --length 1000:65535 -j DROP
COMMIT
RULES
'

# kube-proxy in iptables mode.
iptables='
xtables-nft-multi iptables-restore --noflush <<RULES
*nat
-A PREROUTING -m addrtype --src-type LOCAL -d 192.0.2.1/32 -p tcp --dport 80 -j MARK --set-xmark 0x4000/0x4000
-A POSTROUTING -m mark --mark 0x4000/0x4000 -j MASQUERADE
COMMIT
*filter
-A FORWARD -d 192.0.2.1/32 -p tcp --dport 80 -j REJECT
-A FORWARD -d 192.0.2.1/32 -m conntrack --ctstate NEW -j DROP
COMMIT
RULES
'

case ${1:-} in
  nftables) rules=$every ;;
  iptables) rules=$every$iptables ;;
  *)
    echo 'usage: host-trial.sh nftables|iptables' >&2
    exit 2
    ;;
esac
if said=$(unshare --net --mount --pid --ipc --uts --fork --kill-child=KILL --mount-proc sh -c "$common" sh "$rules" 2>&1); then
  exit 0
fi
last=$(printf '%s\n' "$said" | grep -v '^[[:space:]]*$' | tail -n 1 | tr -cd '[:print:]' | cut -c 1-200)
cannot "a test of its features failed: ${last:-without an error message}"
