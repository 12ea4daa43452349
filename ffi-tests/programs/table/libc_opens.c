/*
 * Libraries that libc opens itself during the run: for the exit of a thread, a
 * backtrace, a character set, names of users. Some are opened while another thread than
 * the main one runs.
 */
#include "../check.h"
#include <execinfo.h>
#include <iconv.h>
#include <netdb.h>
#include <pthread.h>
#include <pwd.h>

static long total;

static void *leave(void *value)
{
    pthread_exit((char *)value + 3);
}

static void *convert(void *value)
{
    char from[] = "\xa4 100", to[32] = "", *in = from, *out = to;
    size_t in_left = sizeof from, out_left = sizeof to;
    iconv_t state = iconv_open("UTF-8", "ISO-8859-15");
    MUST(state != (iconv_t)-1);
    MUST(iconv(state, &in, &in_left, &out, &out_left) != (size_t)-1);
    iconv_close(state);
    MUST(strcmp(to, "\xe2\x82\xac 100") == 0);
    return (char *)value + out_left;
}

static void in_thread(void *(*start)(void *))
{
    pthread_t thread;
    void *result;
    MUST(pthread_create(&thread, NULL, start, (void *)(long)round_) == 0);
    MUST(pthread_join(thread, &result) == 0);
    total = total * 31 % 1000003 + (long)result;
}

static void content(void)
{
    void *frame;
    struct passwd *user;
    struct addrinfo *address;
    if (round_ >= 2)
        in_thread(leave);
    meet();
    if (round_ >= 3)
        in_thread(convert);
    meet();
    if (round_ >= 4) {
        user = getpwuid(0);
        MUST(user != NULL && user->pw_uid == 0);
    }
    if (round_ >= 5) {
        MUST(getaddrinfo("localhost", NULL, NULL, &address) == 0);
        freeaddrinfo(address);
    }
    if (round_ >= 6)
        MUST(backtrace(&frame, 1) == 1);
    say("total %ld", total);
}

MAIN(content)
