#include <ballast/base/hash.h>
#include <ballast/base/version.h>

#include <cstdio>

int main() {
  ballast::Digest digest = ballast::blake3(ballast::as_bytes("ballast"));
  std::printf("ballast %s %s\n", std::string(ballast::version()).c_str(), ballast::to_hex(digest).c_str());
}
