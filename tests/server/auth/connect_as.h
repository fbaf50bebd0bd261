// Makes TCP connections of other users of this machine.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

namespace gpupool::server {

inline constexpr uid_t kNobody = 65534;

// Returns a connection to the port at an address of IPv4 or IPv6; -1 on
// failure.
inline int ConnectTo(const std::string& address, int port) {
  sockaddr_in ip4 = {};
  ip4.sin_family = AF_INET;
  ip4.sin_port = htons(static_cast<uint16_t>(port));
  sockaddr_in6 ip6 = {};
  ip6.sin6_family = AF_INET6;
  ip6.sin6_port = ip4.sin_port;
  const bool is_ip4 = inet_pton(AF_INET, address.c_str(), &ip4.sin_addr) == 1;
  if (!is_ip4) inet_pton(AF_INET6, address.c_str(), &ip6.sin6_addr);
  const int fd =
      socket(is_ip4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto* to = is_ip4 ? reinterpret_cast<const sockaddr*>(&ip4)
                          : reinterpret_cast<const sockaddr*>(&ip6);
  if (connect(fd, to, is_ip4 ? sizeof(ip4) : sizeof(ip6)) == 0) return fd;
  close(fd);
  return -1;
}

// A message with one byte and room for one file.
struct FileMessage {
  FileMessage() {
    part = {&byte, 1};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = room;
    header.msg_controllen = sizeof(room);
  }
  char byte = 0;
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  iovec part = {};
  msghdr header = {};
};

inline void SendFile(int socket, int file) {
  FileMessage message;
  cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(sizeof(file));
  std::memcpy(CMSG_DATA(control), &file, sizeof(file));
  sendmsg(socket, &message.header, 0);
}

// Returns the file that was sent; -1 if there is none.
inline int ReceiveFile(int socket) {
  FileMessage message;
  if (recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* const control = CMSG_FIRSTHDR(&message.header);
  if (control == nullptr) return -1;
  int file = -1;
  std::memcpy(&file, CMSG_DATA(control), sizeof(file));
  return file;
}

// Returns a connection that a process of the user made and gave to this one; -1
// on failure. Only root can do so.
inline int ConnectAs(uid_t uid, const std::string& address, int port) {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    // Without the library's function, which is for all threads.
    if (syscall(SYS_setuid, uid) == 0) {
      SendFile(ends[1], ConnectTo(address, port));
    }
    _exit(0);
  }
  close(ends[1]);
  const int connection = ReceiveFile(ends[0]);
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return connection;
}

}  // namespace gpupool::server
