"""An authority of the tests' own, for sites on loopback that speak TLS."""

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certified(folder: Path, *names: str) -> tuple[Path, ssl.SSLContext]:
    """The authority's certificate as a file, and the context of a server that has these names (or numbers)."""
    authority, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    begin, end = datetime.now(UTC) - timedelta(days=1), datetime.now(UTC) + timedelta(days=30)

    def certificate(subject: str, of: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType) -> bytes:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
        made = x509.CertificateBuilder(issuer, name, of.public_key(), x509.random_serial_number(), begin, end)
        signs = of is authority
        use = x509.KeyUsage(not signs, False, False, False, False, signs, signs, False, False)
        made = made.add_extension(extension, critical=signs).add_extension(use, critical=True)
        own, by = of.public_key(), authority.public_key()  # Python 3.13 asks for all of what follows
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(own), critical=False)
        made = made.add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by), critical=False)
        return made.sign(authority, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    alternatives = [x509.IPAddress(ip_address(one)) if one[0].isdigit() else x509.DNSName(one) for one in names]
    (folder / "authority.pem").write_bytes(certificate("tests", authority, x509.BasicConstraints(True, None)))
    chain = certificate("site", key, x509.SubjectAlternativeName(alternatives))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "site.pem").write_bytes(chain + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "site.pem")
    return folder / "authority.pem", context
