/* A network mount's errors for one program: preload it, and say in the environment what fails. Read at each call.
 *
 * MOUNT        a directory; nothing but descriptors of files below it is touched
 * MOUNT_LOCKS  the errno of flock and of the locks of fcntl; without it they work
 * MOUNT_FAILS  one of read, write, sync, truncate, look (fstat), close; as on a real mount, close fails only if the file was written
 * MOUNT_AFTER  so many of those calls succeed first
 * MOUNT_ERRNO  the errno of all later ones; with ESTALE it is that of every later call on the file of the first of them,
 *              while other files go on to work: the server has forgotten one handle
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define FIND(name) if (!real) real = dlsym(RTLD_NEXT, #name)

static int calls;
static ino_t stale; /* the one file that the server has forgotten */

/* How many calls of the kind in MOUNT_FAILS there were. */
int mount_calls(void) { return calls; }

static int number(const char *name) {
    const char *text = getenv(name);
    return text ? atoi(text) : 0;
}

static int is_below(int fd) {
    const char *below = getenv("MOUNT");
    char name[64], path[PATH_MAX];
    if (!below) return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, sizeof path - 1);
    return length > 0 && !strncmp(path, below, strlen(below)) && path[strlen(below)] == '/';
}

static ino_t inode(int fd) {
    static int (*real)(int, struct stat *);
    struct stat found;
    FIND(fstat);
    return real(fd, &found) ? 0 : found.st_ino;
}

static int is_stale(int fd) { return stale && inode(fd) == stale; }

/* Whether a call fails; sets errno then. */
static int fails(const char *kind, int fd) {
    if (!is_below(fd)) return 0;
    if (is_stale(fd)) {
        errno = ESTALE;
        return 1;
    }
    const char *failing = getenv("MOUNT_FAILS");
    if (!failing || strcmp(failing, kind)) return 0;
    if (!strcmp(kind, "close") && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY) return 0;
    int is_stale_one = number("MOUNT_ERRNO") == ESTALE, left = number("MOUNT_AFTER") - calls++;
    if (left > 0 || (is_stale_one && left < 0)) return 0;
    if (is_stale_one) stale = inode(fd);
    errno = number("MOUNT_ERRNO");
    return 1;
}

#define FAILING(kind, type, name, parameters, arguments) \
    type name parameters { \
        static type (*real) parameters; \
        FIND(name); \
        return fails(kind, fd) ? -1 : real arguments; \
    }

FAILING("read", ssize_t, read, (int fd, void *data, size_t size), (fd, data, size))
FAILING("read", ssize_t, pread64, (int fd, void *data, size_t size, off64_t at), (fd, data, size, at))
FAILING("write", ssize_t, write, (int fd, const void *data, size_t size), (fd, data, size))
FAILING("write", ssize_t, writev, (int fd, const struct iovec *parts, int count), (fd, parts, count))
FAILING("sync", int, fsync, (int fd), (fd))
FAILING("sync", int, fdatasync, (int fd), (fd))
FAILING("truncate", int, ftruncate64, (int fd, off64_t size), (fd, size))
FAILING("look", int, fstat, (int fd, struct stat *found), (fd, found))
FAILING("look", int, fstat64, (int fd, struct stat64 *found), (fd, found))

int close(int fd) {
    static int (*real)(int);
    int is_failing = fails("close", fd), error = errno;
    FIND(close);
    int answer = real(fd);
    if (!is_failing) return answer;
    errno = error; /* and the file is closed all the same */
    return -1;
}

static int has_no_lock(int fd) {
    if (!number("MOUNT_LOCKS") || !is_below(fd)) return 0;
    errno = number("MOUNT_LOCKS");
    return 1;
}

int flock(int fd, int operation) {
    static int (*real)(int, int);
    FIND(flock);
    return has_no_lock(fd) ? -1 : real(fd, operation);
}

static int is_lock(int command) {
    return command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
}

/* A new file may get the inode of a stale one that was deleted. */
static int made(int fd, int flags) {
    if (fd >= 0 && flags & O_EXCL && is_stale(fd)) stale = 0;
    return fd;
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        static int (*real)(const char *, int, ...); \
        FIND(name); \
        va_list rest; \
        va_start(rest, flags); \
        int mode = va_arg(rest, int); \
        va_end(rest); \
        return made(real(path, flags, mode), flags); \
    }
OPEN(open)
OPEN(open64)

#define FCNTL(name) \
    int name(int fd, int command, ...) { \
        static int (*real)(int, int, ...); \
        FIND(name); \
        va_list rest; \
        va_start(rest, command); \
        void *argument = va_arg(rest, void *); \
        va_end(rest); \
        return is_lock(command) && has_no_lock(fd) ? -1 : real(fd, command, argument); \
    }
FCNTL(fcntl)
FCNTL(fcntl64)
