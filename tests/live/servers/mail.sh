#!/usr/bin/env bash
# A mail server for the live tests: Postfix and Dovecot from Debian's packages, on loopback only, with a CA of its own.
# Nothing leaves the machine: mail for any other domain than lab.test is refused. Needs root, as both drop privileges.
#
#   mail.sh start|stop|wipe|status|kick USER    with NANOCLAW_TEST_MAIL_PORT (default 3520): five ports from there on
#
#   +0 SMTP, as from other servers   +1 submission with STARTTLS   +2 submission with TLS   +3 IMAP with STARTTLS   +4 IMAPS
#
# bot@lab.test, ann@lab.test and eve@lab.test log in with their name and "pass1", and may send as themselves only. Mail that
# is submitted with a login is vouched for by an Authentication-Results header of lab.test; headers of that name that come
# with a mail are taken away. As most servers do, it compares the sender of the envelope with the login, not the From.
# Mail for ghost@lab.test is taken and comes back as undeliverable.
set -euo pipefail

port=${NANOCLAW_TEST_MAIL_PORT:-3520}
base=${TMPDIR:-/tmp}/nanoclaw-live
data=$base/run/mail-$port
postfix_dir=$data/postfix
dovecot_dir=$data/dovecot

install() {
    [ -x /usr/sbin/postfix ] && [ -x /usr/sbin/dovecot ] && [ -e /usr/lib/dovecot/lmtp ] && return
    DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
        postfix dovecot-imapd dovecot-lmtpd openssl >/dev/null
}

certificates() {
    cd "$data"
    openssl req -x509 -newkey rsa:2048 -nodes -days 365 -keyout ca.key -out ca.pem -subj "/CN=nanoclaw test CA" \
        -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign
    openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj "/CN=localhost"
    printf 'subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n' >server.ext
    openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 365 -extfile server.ext -out server.pem
    cd - >/dev/null
}

configure() {
    [ -f "$data/configured" ] && return
    mkdir -p "$postfix_dir" "$dovecot_dir/run" "$data/mail" "$data/queue" "$data/lib"
    certificates >/dev/null 2>&1
    getent passwd vmail >/dev/null || useradd --system --no-create-home --shell /usr/sbin/nologin vmail
    chown vmail "$data/mail"
    chown postfix "$data/lib"
    chmod 755 "$base" "$base/run" "$data"
    for name in bot ann eve; do echo "$name@lab.test:{PLAIN}${name}pass1"; done >"$data/users"

    cat >"$dovecot_dir/dovecot.conf" <<CONF
base_dir = $dovecot_dir/run
instance_name = nanoclaw-$port
protocols = imap lmtp
listen = 127.0.0.1
log_path = $dovecot_dir/log
ssl = required
ssl_cert = <$data/server.pem
ssl_key = <$data/server.key
auth_mechanisms = plain login
auth_failure_delay = 0
mail_location = maildir:~/Maildir
first_valid_uid = 1
passdb {
  driver = passwd-file
  args = username_format=%u $data/users
}
userdb {
  driver = static
  args = uid=vmail gid=vmail home=$data/mail/%u
}
namespace inbox {
  inbox = yes
}
service imap-login {
  inet_listener imap {
    port = $((port + 3))
  }
  inet_listener imaps {
    port = $((port + 4))
    ssl = yes
  }
}
service auth {
  unix_listener $dovecot_dir/sasl {
    user = postfix
    group = postfix
    mode = 0660
  }
}
service lmtp {
  unix_listener $dovecot_dir/lmtp {
    user = postfix
    group = postfix
    mode = 0600
  }
}
CONF

    echo '/^Authentication-Results:/ IGNORE' >"$postfix_dir/from_others"
    cat >"$postfix_dir/submitted" <<CONF
/^Authentication-Results:/ IGNORE
/^From:/ PREPEND Authentication-Results: lab.test; dmarc=pass (logged in) header.from=lab.test
CONF
    cat >"$postfix_dir/main.cf" <<CONF
compatibility_level = 3.6
queue_directory = $data/queue
data_directory = $data/lib
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
maillog_file = $data/postfix.log
maillog_file_prefixes = $data
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
myhostname = localhost
mydomain = lab.test
mydestination =
mynetworks = 127.0.0.0/8
alias_maps =
virtual_mailbox_domains = lab.test
virtual_mailbox_maps = inline:{bot@lab.test=1, ann@lab.test=1, eve@lab.test=1, ghost@lab.test=1}
virtual_transport = lmtp:unix:$dovecot_dir/lmtp
default_transport = error:5.1.2 nothing leaves this machine
relay_transport = error:5.1.2 nothing leaves this machine
local_transport = error:5.1.1 nobody here
smtpd_tls_cert_file = $data/server.pem
smtpd_tls_key_file = $data/server.key
smtpd_tls_security_level = may
smtpd_sasl_type = dovecot
smtpd_sasl_path = $dovecot_dir/sasl
smtpd_sender_login_maps = inline:{bot@lab.test=bot@lab.test, ann@lab.test=ann@lab.test, eve@lab.test=eve@lab.test}
smtpd_relay_restrictions = permit_sasl_authenticated, reject_unauth_destination
header_checks = regexp:$postfix_dir/from_others
message_size_limit = 26214400
CONF
    {
        echo "127.0.0.1:$port inet n - n - - smtpd"
        submission "$((port + 1))" smtpd_tls_security_level=encrypt
        submission "$((port + 2))" smtpd_tls_wrappermode=yes
        echo "cleanup unix n - n - 0 cleanup"
        echo "submitted unix n - n - 0 cleanup"
        echo "  -o header_checks=regexp:$postfix_dir/submitted"
        echo "qmgr unix n - n 300 1 qmgr"
        echo "postlog unix-dgram n - n - 1 postlogd"
        echo "tlsmgr unix - - n 1000? 1 tlsmgr"
        echo "anvil unix - - n - 1 anvil"
        for name in bounce defer trace; do echo "$name unix - - n - 0 bounce"; done
        for name in error retry; do echo "$name unix - - n - - error"; done
        for name in lmtp smtp proxymap; do echo "$name unix - - n - - $name"; done
        echo "rewrite unix - - n - - trivial-rewrite"
    } >"$postfix_dir/master.cf"
    touch "$data/configured"
}

submission() {
    echo "127.0.0.1:$1 inet n - n - - smtpd"
    echo "  -o $2"
    echo "  -o smtpd_sasl_auth_enable=yes"
    echo "  -o smtpd_client_restrictions=permit_sasl_authenticated,reject"
    echo "  -o smtpd_sender_restrictions=reject_sender_login_mismatch"
    echo "  -o cleanup_service_name=submitted"
}

postfix_pid() { tr -d ' ' 2>/dev/null <"$data/queue/pid/master.pid" || true; }
dovecot_pid() { cat "$dovecot_dir/run/master.pid" 2>/dev/null || true; }
is_up() { [ -n "$1" ] && kill -0 "$1" 2>/dev/null; }

start() {
    install
    configure
    is_up "$(dovecot_pid)" || dovecot -c "$dovecot_dir/dovecot.conf" </dev/null >"$data/dovecot.start" 2>&1
    is_up "$(postfix_pid)" || postfix -c "$postfix_dir" start </dev/null >"$data/postfix.start" 2>&1
    for _ in $(seq 200); do
        if (exec 3<>"/dev/tcp/127.0.0.1/$((port + 2))" 4<>"/dev/tcp/127.0.0.1/$((port + 4))") 2>/dev/null; then
            echo "$data"
            return
        fi
        sleep 0.05
    done
    echo "the mail server did not start: see $data" >&2
    exit 1
}

stop() {
    for pid in "$(postfix_pid)" "$(dovecot_pid)"; do
        is_up "$pid" || continue
        kill "$pid"
        for _ in $(seq 200); do is_up "$pid" || break; sleep 0.05; done
    done
}

case ${1:-start} in
start) start ;;
stop) stop ;;
wipe) stop; rm -rf "$data" ;;
status) is_up "$(postfix_pid)" && is_up "$(dovecot_pid)" && echo up || echo down ;;
kick) doveadm -c "$dovecot_dir/dovecot.conf" kick "$2" >/dev/null ;;
*) sed -n '2,13p' "$0" >&2; exit 2 ;;
esac
