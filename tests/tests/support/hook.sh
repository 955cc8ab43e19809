#!/bin/sh
# A minimal external data plane: every address of the only Service is forwarded to one Pod. The Pod depends on the event,
# so that a test can see which one ran.
set -eu
event=$1
file=$2
grep -q '"service": "ingress/ingress-nginx"' "$file"
case $event in
built) pod=10.244.1.10 ;;
changed) pod=10.244.2.10 ;;
*) echo "expected built or changed, got $event" >&2; exit 2 ;;
esac
grep -q "\"address\": \"$pod\"" "$file"
for node in n1 n2 n3 n4; do
    nsenter --net=/run/netns/$node iptables-restore --noflush <<RULES
*nat
:HOOK - [0:0]
-A HOOK -d 203.0.113.10/32 -p tcp --dport 80 -j DNAT --to-destination $pod:8080
-A HOOK -d 10.96.0.50/32 -p tcp --dport 80 -j DNAT --to-destination $pod:8080
COMMIT
RULES
    if [ "$event" = built ]; then
        nsenter --net=/run/netns/$node iptables -t nat -A PREROUTING -j HOOK
    fi
done
