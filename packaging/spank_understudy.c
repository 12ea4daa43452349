/* Option --understudy of Slurm's srun (spank(7)).
 *
 *     srun --understudy=spares:2,interval:30s ./solver
 *
 * The names are those of the options of `understudy run`. A line of plugstack.conf loads the
 * plug-in, which is compiled against the site's Slurm:
 *
 *     gcc -shared -fPIC -o spank_understudy.so spank_understudy.c
 *     required /path/spank_understudy.so library=/usr/local/lib/understudy/libunderstudy.so
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <slurm/spank.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

SPANK_PLUGIN(understudy, 1)

#define PREFIX "UNDERSTUDY_"
#define ARGUMENT "library="

/* Path of the preload library, an argument in plugstack.conf. */
static const char *library = "/usr/local/lib/understudy/libunderstudy.so";

/* Sets the variable of a setting, whose name may be in lower case with hyphens. */
static int set_setting(const char *name, const char *value)
{
    char variable[128] = PREFIX;
    size_t length = strlen(variable);
    if (*name == '\0' || length + strlen(name) >= sizeof variable)
        return -1;
    for (; *name != '\0'; name++)
        variable[length++] = *name == '-' ? '_' : (char)toupper((unsigned char)*name);
    return setenv(variable, value, 1);
}

/* Sets the variables of a list NAME:VALUE,... */
static int set_settings(const char *list)
{
    char *copy = strdup(list), *rest = copy;
    int failed = copy == NULL;
    for (char *item; !failed && (item = strsep(&rest, ",")) != NULL;) {
        char *value = strchr(item, ':');
        if (value != NULL)
            *value++ = '\0';
        failed = value == NULL || set_setting(item, value) != 0;
        if (failed)
            slurm_error("--understudy: `%s` is not NAME:VALUE; the names are those of the options "
                        "of `understudy run`, as in --understudy=spares:2,interval:30s", item);
    }
    free(copy);
    return failed ? -1 : 0;
}

/* Puts the library in front of other libraries that are preloaded into the tasks. */
static int preload(void)
{
    const char *others = getenv("LD_PRELOAD");
    char *list;
    if (others == NULL || *others == '\0')
        return setenv("LD_PRELOAD", library, 1);
    if (asprintf(&list, "%s:%s", library, others) < 0)
        return -1;
    int failed = setenv("LD_PRELOAD", list, 1);
    free(list);
    return failed;
}

/* Called by srun, whose environment is that of the tasks, and by each node. */
static int handle_option(int number, const char *list, int is_on_node)
{
    (void)number;
    if (is_on_node)
        return 0;
    if (list != NULL && set_settings(list) != 0)
        return -1;
    /* A job that cannot be protected stops, as under `understudy run`. */
    if (setenv(PREFIX "REQUIRE", "start", 0) != 0 || preload() != 0) {
        slurm_error("--understudy: %s", strerror(errno));
        return -1;
    }
    return 0;
}

static struct spank_option option = {
    .name = "understudy",
    .arginfo = "NAME:VALUE,...",
    .usage = "protect the tasks by understudy: the last ranks are spares, and other settings are "
             "those of `understudy run`",
    .has_arg = 2,
    .cb = handle_option,
};

int slurm_spank_init(spank_t spank, int count, char **arguments)
{
    for (int i = 0; i < count; i++) {
        if (strncmp(arguments[i], ARGUMENT, strlen(ARGUMENT)) != 0) {
            slurm_error("understudy: `%s` in plugstack.conf is not library=FILE", arguments[i]);
            return -1;
        }
        library = strdup(arguments[i] + strlen(ARGUMENT));
    }
    spank_context_t context = spank_context();
    if (context != S_CTX_LOCAL && context != S_CTX_REMOTE)
        return 0;
    return spank_option_register(spank, &option) == ESPANK_SUCCESS ? 0 : -1;
}
