"""What runs inside the sandbox: standard library only, and no import of `srl_envs`.

The server process loads this folder as a package of its own (see `__main__`), because importing
`srl_envs` there would bring thousands of modules, and the answers of our own tasks, within reach
of untrusted code. The trusted side imports `wire` and `codec` from here.
"""
