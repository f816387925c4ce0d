// The process that holds a pod's namespaces: sleeps, and reaps children that nobody waits for.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void down(int number) {
  (void)number;
  _exit(0);
}

static void reap(int number) {
  (void)number;
  while (waitpid(-1, 0, WNOHANG) > 0) {
  }
}

int main(void) {
  signal(SIGINT, down);
  signal(SIGTERM, down);
  signal(SIGCHLD, reap);
  for (;;) pause();
}
