#!/bin/sh
# A mmdebstrap hook: takes iptables, nft, ipset, ip and busybox with their libraries out of the new root into $NETLAYER,
# a layer for the images of kube-proxy, kube-router and busybox. modprobe becomes `true`, because a container has no
# module files; what kube-router needs is loaded by the host or built into its kernel.
chroot "$1" sh -c 'cd /
  {
    for file in usr/sbin/xtables-nft-multi usr/sbin/nft usr/sbin/ipset usr/sbin/conntrack usr/bin/ip usr/bin/true usr/bin/busybox usr/lib/*/xtables/*.so; do
      echo $file
      ldd /$file | grep -o "/[^ ]*" | cut -c2-
    done
    for name in ip6tables iptables; do
      for end in "" -save -restore; do
        echo usr/sbin/$name$end
        echo usr/sbin/$name-nft$end
      done
    done
    echo etc/iproute2/rt_tables
  } | sort -u | tar -c -h --sort=name --transform="s,^usr/bin/true$,usr/sbin/modprobe," -T -' > "$NETLAYER"
